"""A worker from the settings: which queues, which handlers, which server. Runs nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from django.conf import settings
from django.core.cache import caches
from django.db import connections as django_connections

from emq_django import chores, connections
from emq_django.conf import QueueConf, conf, keys, nearest
from emq_django.dialing import NO_MANNERS, Manners
from emq_django.errors import ConfigError
from emq_django.job_context import DjangoHooks
from emq_django.protocol.keyspace import valid_new_queue
from emq_django.wire.roster import Roster
from emq_django.worker import handlers
from emq_django.worker.children import HAD_ENOUGH
from emq_django.worker.ending import Ended
from emq_django.worker.loop import Worker
from emq_django.worker.options import QueueOptions, TreeOptions, WorkerOptions
from emq_django.worker.seat import ChildSeat, Seat, new_incarnation
from emq_django.worker.sources import sources_of
from emq_django.worker.strays import Kill
from emq_django.worker.supervisor import Supervisor, Surroundings
from emq_django.worker.table import Region


class _Worker(Worker):
    """A worker that also does the chores of its queues."""

    def run(self) -> Ended:
        """Work, and do the chores beside it."""
        with chores.beside(self._options):
            return super().run()


class _Lone(_Worker):
    """A worker alone in its process, whose connections bear its name until it ends."""

    def __init__(self, options: WorkerOptions, roster: Roster, seat: Seat) -> None:
        connections.behave(Manners(roster.greet, roster.left))
        super().__init__(options, connections.wire_for, DjangoHooks(), seat)

    def run(self) -> Ended:
        """Work; the process may go on as something else afterwards."""
        try:
            return super().run()
        finally:
            connections.behave(NO_MANNERS)


def worker_for(names: Sequence[str] = (), lease_ms: int | None = None, **options: Any) -> Worker:
    """Return a worker that is alone in its process, for these queues (see ``options_for``)."""
    return _alone(options_for(names, lease_ms, **options))


def tree_for(
    tree: TreeOptions, names: Sequence[str] = (), lease_ms: int | None = None, **options: Any
) -> Supervisor:
    """Return a tree of worker processes for these queues (see ``options_for``)."""
    of_each = options_for(names, lease_ms, **options)
    surroundings = Surroundings(
        # The parent asks servers by the connections that hear, never by these.
        sources=sources_of(of_each, connections.wire_for),
        listen=connections.hearing_clients,
        overhear=partial(connections.hearing_clients, of_reads=True),
        before_fork=_close_all,
        work=lambda seat: _in_child(of_each, seat),
        kill_for=_name_connections,
    )
    return Supervisor(tree, of_each, surroundings)


def options_for(
    names: Sequence[str] = (), lease_ms: int | None = None, **options: Any
) -> WorkerOptions:
    """Return what a worker is told; without names the queues with a HANDLER and those of tasks.

    ``lease_ms`` stands for every queue's own; further options are those of ``WorkerOptions``.
    Raises ConfigError or InvalidQueueName before anything is sent.
    """
    for name in names:
        valid_new_queue(keys(name))
    served = dict.fromkeys(names) or _all()
    return WorkerOptions(
        queues=tuple(one for name in served for one in _queues(name, lease_ms)),
        enqueue_deadline_ms=round(conf().enqueue_deadline_s * 1_000),
        **options,
    )


def _alone(options: WorkerOptions) -> Worker:
    incarnation = new_incarnation()
    roster = Roster(incarnation)
    return _Lone(options, roster, Seat(incarnation, _kill_of(roster), connections.hearing_clients))


def _in_child(options: WorkerOptions, seat: ChildSeat) -> int:
    """Work in a forked child; what its threads leave behind ends with the process."""
    ended = _Worker(options, connections.wire_for, DjangoHooks(), seat).run()
    django_connections.close_all()
    logging.shutdown()
    return HAD_ENOUGH if ended.had_enough and not ended.exit_code else ended.exit_code


def _close_all() -> None:
    """Close what a child must not share with its parent."""
    django_connections.close_all()
    caches.close_all()
    connections.close_all()


def _name_connections(incarnation: str, region: Region) -> Kill:
    """Give this process's connections a name, and return what kills those that it lost."""
    roster = Roster(incarnation, region.connected, region.disconnected)
    connections.behave(Manners(roster.greet, roster.left))
    return _kill_of(roster)


def _kill_of(roster: Roster) -> Kill:
    return lambda keys: roster.kill_lost(connections.wire_for(keys).client, keys.base)


def _all() -> dict[str, None]:
    """Return every queue that this project serves, in the order of the settings."""
    tasks = _task_queues()
    named = [name for name, its in conf().queues.items() if its.handler or name in tasks]
    return dict.fromkeys([*named, *sorted(tasks)])


def _task_queues() -> dict[str, str]:
    """Return the queues of the task backends; none where the project has no tasks."""
    if not getattr(settings, "TASKS", None):
        return {}
    from emq_django.task_backend import queues

    return queues.served()


def _queues(name: str, lease_ms: int | None) -> Iterator[QueueOptions]:
    its = conf().queue(name)
    if its.handler is not None:
        yield _options(its, name, lease_ms, handler=handlers.load(its.handler, name))
        return
    if not is_for_tasks(name):
        known = [*(one for one, it in conf().queues.items() if it.handler), *_task_queues()]
        raise ConfigError(
            f'queue {name!r} has no handler: set EMQ["QUEUES"][{name!r}]["HANDLER"] to the dotted'
            f' path of a function, or name it in TASKS[...]["QUEUES"].{nearest(name, known)}'
        )
    from emq_django.task_backend import registry, runner

    registry.discover()
    base = conf().base_of(name)
    bands = conf().bands(name)
    for band in bands:
        yield _options(
            conf().queue(base),
            band,
            lease_ms,
            handler=runner.run,
            policy_of=runner.policy_of,
            band_of=base if len(bands) > 1 else "",
        )


def is_for_tasks(name: str) -> bool:
    """Whether a backend in ``TASKS`` of this package takes tasks for a queue."""
    if not getattr(settings, "TASKS", None):
        return False
    from emq_django.task_backend import queues

    return queues.alias_of(name) is not None


def _options(its: QueueConf, name: str, lease_ms: int | None, **how: Any) -> QueueOptions:
    return QueueOptions(
        keys=keys(name),
        lease_ms=its.lease_ms if lease_ms is None else lease_ms,
        max_attempts=its.max_attempts,
        backoff_base_ms=its.backoff_base_ms,
        backoff_cap_ms=its.backoff_cap_ms,
        hard_limit_s=its.hard_limit_s,
        address=connections.address_of(conf().connection).label,
        **how,
    )
