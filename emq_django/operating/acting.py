"""The verbs of ``emq_queue``: what each asks, does and says at its end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from emq_django.conf import conf, keys
from emq_django.connections import wire_for
from emq_django.errors import EmqError
from emq_django.operating import steps
from emq_django.operating.command import NO, STOPPED, UNABLE, sentence
from emq_django.operating.confirm import confirm
from emq_django.operating.interrupt import stoppable
from emq_django.operating.progress import Progress
from emq_django.operating.steps import Walk
from emq_django.operating.text import in_number, number, safe
from emq_django.protocol import operate
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.records import JobSet

Options = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One verb. ``asks`` says what can't be undone; ``walk`` does it in steps."""

    help: str
    asks: str = ""
    said: tuple[str, str] = ("", "")  # of one job, and of any other number
    walk: Callable[[Queue, Options], Iterator[Walk]] | None = None


_SETS: Final = {"scheduled": JobSet.SCHEDULE, "dead": JobSet.DEAD}

VERBS: Final = {
    "pause": Verb(help="hand out no more jobs"),
    "resume": Verb(help="hand out jobs again"),
    "drain": Verb(
        help="remove the jobs that wait",
        asks="This removes the jobs that wait in {}",
        said=("1 job was removed", "{} jobs were removed"),
        walk=lambda queue, options: steps.drain(queue, [_SETS[one] for one in options["also"]]),
    ),
    "retry-dead": Verb(
        help="give dead jobs another life",
        said=("1 job waits again", "{} jobs wait again"),
        walk=lambda queue, _: steps.retry_dead(queue),
    ),
    "obliterate": Verb(
        help="remove the queue with all its keys",
        asks="This removes {} and all its jobs, dead and scheduled ones too",
        said=("the queue is gone, 1 job with it", "the queue is gone, {} jobs with it"),
        walk=lambda queue, options: steps.obliterate(queue, force=options["force"]),
    ),
}


def act(command: BaseCommand, options: Options, progress: Progress) -> str:
    """Do what the options ask for and return the line that says so. Raises CommandError."""
    name, verb = options["queue"], VERBS[options["verb"]]
    keys(name)  # what is no name is refused before anything is asked
    queues = [keys(band) for band in conf().bands(name)]
    if verb.walk is None:
        return _switch(name, queues, options["verb"])
    if verb.asks:
        what = verb.asks.format(safe(name))
        confirm(sys.stdin, command.stdout, name, what, yes=options["yes"])
    begin = verb.walk

    def walk_of(queue: Queue) -> Iterator[Walk]:
        return begin(queue, options)

    walks = walk_of(queues[0]) if len(queues) == 1 else steps.of_each(queues, walk_of)
    walk = _walked(walks, options, progress)
    return "; ".join([f"{safe(name)}: {in_number(walk.done, *verb.said)}", *walk.notes])


def _switch(name: str, queues: Sequence[Queue], verb: str) -> str:
    build = operate.pause if verb == "pause" else operate.resume
    changed = [wire_for(queue).run(build(queue)) for queue in queues]
    state = "paused" if verb == "pause" else "running"
    return f"{safe(name)}: {state}{'' if any(changed) else ', as it was'}"


def _walked(walks: Iterator[Walk], options: Options, progress: Progress) -> Walk:
    walk = Walk()
    try:
        with stoppable() as stop:
            for walk in walks:
                progress.show(walk.done, walk.total)
                if stop.asked:
                    raise CommandError(_so_far(walk, options), returncode=STOPPED)
    except steps.Refused as exc:
        raise CommandError(f"{safe(options['queue'])}: {exc}", returncode=NO) from exc
    except EmqError as exc:
        text = f"{sentence(exc)}; {_so_far(walk, options)}" if walk.done else sentence(exc)
        raise CommandError(text, returncode=UNABLE) from exc
    finally:
        progress.end()
    return walk


def _so_far(walk: Walk, options: Options) -> str:
    total = f" of {number(walk.total)}" if walk.total else ""
    paused = " The queue stays paused." if options["verb"] == "obliterate" else ""
    return (
        f"stopped after {number(walk.done)}{total}: what is done is whole, the same command does"
        f" the rest.{paused}"
    )
