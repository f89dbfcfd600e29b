"""One job: where it is, what it holds in safe words, and what can be done to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from django.http import HttpRequest

from emq_django.admin.render import Contents, Shown
from emq_django.conf import conf, keys
from emq_django.connections import admin_wire_for, wire_for
from emq_django.errors import EmqError, InvalidInput
from emq_django.operating.survey import ask, survey
from emq_django.operating.text import safe, span, visible
from emq_django.protocol import operate, read, results, settle
from emq_django.protocol.calls import Call
from emq_django.protocol.ids import is_branded, minted_ms
from emq_django.protocol.keyspace import Queue
from emq_django.protocol.operate import Cancelled, Removed, Reprocessed
from emq_django.protocol.records import Blob, ClaimedJob, Row, Verdict
from emq_django.protocol.results import Left

R = TypeVar("R")
Content = tuple[str, int, str]  # a field's name, its bytes, and what is shown of it

_PLAIN: Final = ("state", "attempts", "group", "failures", "stalled", "worker", "cancel")
_LEFT: Final = "finished; this is what it left"
_LEFT_PLAIN: Final = ("state", "task", "attempts", "failures", "stalled", "worker")
_LEFT_CONTENTS: Final = ("value", "payload", "progress", "last_error", "errors")
_WHOLE_BYTES: Final = 2**30  # a value may not be larger on any server


@dataclass(frozen=True, slots=True)
class Done:
    """What became of an action: whether it was done, and in words; the verdict for programs."""

    ok: bool
    text: str
    verdict: str


def find(job_id: str, queue: str | None) -> tuple[Queue, Row] | None:
    """Return a job and its queue; without a name every known queue is asked.

    ``job_id`` may be a task result's id, which names its queue: ``mail:JOB…``. Raises InvalidInput
    where it names another one and is not itself an id in ``queue``.
    """
    limit = conf().admin.payload_max_bytes
    return _first(job_id, queue, lambda where, its_id: read.row(where, its_id, limit))


def find_left(job_id: str, queue: str | None) -> tuple[Queue, str, Left] | None:
    """Return what a finished job left behind, with its queue and its id; arguments as ``find``."""
    found = _first(job_id, queue, results.result)
    return found and (found[0], _parted(job_id, queue)[1], found[1])


def raw_payload(queue: Queue, job_id: str) -> bytes | None:
    """Return all bytes of a payload; None where there is none."""
    row = wire_for(queue).run(read.row(queue, job_id, _WHOLE_BYTES))
    blob = row.fields.get("payload") if row else None
    return blob.value if blob else None


def without_payload(row: Row) -> str:
    """Return why there are no bytes to show, in words."""
    ended = ": a job that has ended keeps none" if row.finished else ""
    return f"it is {_place(row)} and has no payload{ended}"


def lines_of_left(queue: Queue, job_id: str, left: Left) -> Iterator[str]:
    """Yield what is still known of a finished job, as ``lines_of`` does of another."""
    for name, value in (("queue", queue.name), ("id", job_id), ("place", _LEFT)):
        yield f"{name:<9} {safe(value)}"
    for name in _LEFT_PLAIN:
        if text := left.text(name):
            yield f"{name:<9} {safe(text)}"
    if (ended_ms := left.number("finished")) is not None:
        yield f"{'ended':<9} {span(time.time() * 1_000 - ended_ms)} ago"
    yield from _laid_out(_left_contents(queue, job_id, left))


def left_as_json(queue: Queue, job_id: str, left: Left) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "queue": queue.name,
        "id": job_id,
        "place": None,
        "finished": True,
        "ended_ms": left.number("finished"),
        "fields": {name: left.text(name) for name in _LEFT_PLAIN if left.text(name)},
        "contents": _for_programs(_left_contents(queue, job_id, left)),
    }


def lines_of(queue: Queue, row: Row) -> Iterator[str]:
    """Yield what there is to know, a fact per line; contents go through the admin's redaction."""
    facts = [
        ("queue", safe(queue.name)),
        ("id", safe(row.id)),
        ("place", _place(row)),
        *((name, safe(_text(row.fields[name]))) for name in _PLAIN if name in row.fields),
    ]
    if is_branded(row.id):
        facts.append(("minted", f"{span(row.now_ms - minted_ms(row.id))} ago"))
    if row.ttl_ms is not None:
        facts.append(("kept for", span(row.ttl_ms)))
    for name, value in facts:
        yield f"{name:<9} {value}"
    yield from _laid_out(_contents(queue, row))


def as_json(queue: Queue, row: Row) -> dict[str, Any]:
    """Return the same for programs, contents redacted too."""
    return {
        "queue": queue.name,
        "id": row.id,
        "place": row.held_by,
        "score": row.score if row.score is not None and abs(row.score) < float("inf") else None,
        "now_ms": row.now_ms,
        "finished": row.finished,
        "ttl_ms": row.ttl_ms,
        "minted_ms": minted_ms(row.id) if is_branded(row.id) else None,
        "fields": {name: _text(row.fields[name]) for name in _PLAIN if name in row.fields},
        "contents": _for_programs(_contents(queue, row)),
    }


def retry(queue: Queue, row: Row) -> Done:
    """Give a dead job another life."""
    (answer,) = wire_for(queue).run(operate.reprocess(queue, [row.id]))
    texts = {
        Reprocessed.PENDING: "it waits for its next run",
        Reprocessed.NOT_DEAD: f"it is not dead but {_place(row)}: nothing was done",
        Reprocessed.GONE: "it has no row any more: nothing was done",
        Reprocessed.NOT_UNIQUE: "another live job holds its unique key: nothing was done",
    }
    return Done(answer is Reprocessed.PENDING, texts[answer], answer.name.lower())


def remove(queue: Queue, row: Row) -> Done:
    """Take a job off the queue for good; not one that a worker holds."""
    (answer,) = wire_for(queue).run(operate.remove(queue, [row.id]))
    texts = {
        Removed.REMOVED: "it is gone, with its row and its log",
        Removed.ACTIVE: "a worker runs it, nothing was done: --release it, or wait for its end",
        Removed.GONE: "it had no row; the id is in no set any more",
        Removed.LOCKED: "another speaker has locked it: nothing was done",
    }
    done = answer in {Removed.REMOVED, Removed.GONE}
    return Done(done, texts[answer], answer.name.lower())


def cancel(queue: Queue, row: Row) -> Done:
    """Take a job that waits off the queue, ask one that runs to end."""
    (answer,) = wire_for(queue).run(operate.cancel(queue, [row.id]))
    texts = {
        Cancelled.REMOVED: "it waited and is gone, with its row and its log",
        Cancelled.ASKED: "a worker runs it and tells it to end; it will not be run again",
        Cancelled.DEAD: "it is dead: nothing was done (--remove takes it off the queue)",
        Cancelled.GONE: "it had no row; the id is in no set any more",
        Cancelled.LOCKED: "another speaker has locked it: nothing was done",
    }
    done = answer in {Cancelled.REMOVED, Cancelled.ASKED, Cancelled.GONE}
    return Done(done, texts[answer], answer.name.lower())


def release(queue: Queue, row: Row) -> Done:
    """Take a job out of its worker's hands; the run costs it no try."""
    job = ClaimedJob(row.id, b"", _token(row), queue.name)
    answer = wire_for(queue).run(settle.release(queue, job))
    if answer is Verdict.RELEASED:
        text = "it waits again; if its handler goes on, that run can't settle it"
        return Done(ok=True, text=text, verdict=answer.value)
    text = f"no worker holds it, it is {_place(row)}: nothing was done"
    return Done(ok=False, text=text, verdict=answer.value)


def _first(
    job_id: str, queue: str | None, question: Callable[[Queue, str], Call[R | None]]
) -> tuple[Queue, R] | None:
    """Ask every queue where the job may be, and return the first answer that is one."""
    names, its_id, contradicts = _parted(job_id, queue)
    for name in _names() if names is None else names:
        where = keys(name)
        (answer,) = ask(admin_wire_for(where), [question(where, its_id)])
        if isinstance(answer, EmqError):
            raise answer
        if answer is not None:
            return where, answer
    if contradicts:
        raise InvalidInput(
            f"--queue {safe(queue)} and {safe(job_id)}, which is of {safe(contradicts)}, contradict"
            " each other: leave --queue away, or give the id alone"
        )
    return None


def _parted(job_id: str, queue: str | None) -> tuple[list[str] | None, str, str]:
    """Return the queues to be asked (None: all), the id, and a queue that the id names instead."""
    named, _, rest = job_id.rpartition(":")
    if not (named and is_branded(rest)):
        return None if queue is None else [queue], job_id, ""
    if queue is None or queue in {named, *conf().bands(named)}:
        return [queue or named], rest, ""
    return [queue], job_id, named


def _left_contents(queue: Queue, job_id: str, left: Left) -> Iterator[Content]:
    contents = Contents(_nobody(), queue.name, allowed=True)
    limit = conf().admin.payload_max_bytes
    for name in _LEFT_CONTENTS:
        value = left.fields[name]
        if name == "value" and value is None and (size := left.number("value_bytes")):
            yield name, size, "(too large to have been kept)"
        elif value:
            size = len(value)
            shown = contents.whole(job_id, name, Blob(size, value if size <= limit else None))
            yield name, size, _with_remark(shown)


def _names() -> list[str]:
    seen = survey()
    if seen.errors and not any(one.counts for one in seen.queues):
        raise seen.errors[0]
    return [one.name for one in seen.queues]


def _contents(queue: Queue, row: Row) -> Iterator[Content]:
    contents = Contents(_nobody(), queue.name, allowed=True)
    names = sorted(row.fields.keys() - set(_PLAIN), key=lambda name: (name != "payload", name))
    for name in names:
        shown = contents.whole(row.id, name, row.fields[name])
        yield name, row.fields[name].size, _with_remark(shown)


def _laid_out(contents: Iterable[Content]) -> Iterator[str]:
    for name, size, text in contents:
        yield f"{safe(name, 64)} ({size:,} bytes)"
        yield from (f"    {visible(line)}" for line in text.split("\n"))


def _for_programs(contents: Iterable[Content]) -> dict[str, dict[str, Any]]:
    return {name: {"bytes": size, "shown": text} for name, size, text in contents}


def _with_remark(shown: Shown) -> str:
    return f"{shown.text}\n({shown.remark})".strip("\n") if shown.remark else shown.text


def _nobody() -> HttpRequest:
    """Return the request that a redaction hook gets from here: it comes from no page."""
    request = HttpRequest()
    request.method, request.path = "", "emq_job"
    return request


def _place(row: Row) -> str:
    left_ms = 0.0 if row.score is None else row.score - row.now_ms
    if abs(left_ms) == float("inf"):
        left_ms = 0.0
    if row.held_by == "active":
        return f"active, lease {'over for' if left_ms <= 0 else 'ends in'} {span(left_ms)}"
    if row.held_by == "schedule":
        return f"scheduled, due {'since' if left_ms <= 0 else 'in'} {span(left_ms)}"
    if row.held_by:
        return {"pending": "pending", "lane": "pending in its lane"}.get(row.held_by, row.held_by)
    return "finished" if row.finished else "in no set (emq_doctor --fix puts that right)"


def _token(row: Row) -> int:
    text = _text(row.fields["attempts"]) if "attempts" in row.fields else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 16 else 0


def _text(blob: Blob) -> str:
    return "" if blob.value is None else blob.value.decode("utf-8", "surrogateescape")
