"""Sends what waits in the outbox: each row by ``readmit`` under its own id, then deletes it.

Whatever is lost on the way (a reply, this process, the server for an hour) the next relay sends the
row again, and the server knows the job by its id, by its bytes, or by the mark that it leaves for a
day.
"""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import Any, Final, NamedTuple

from django.apps import apps
from django.db import Error as DatabaseFailure
from django.db import connections, router
from django.utils import timezone

from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.errors import EmqError, WireError
from emq_django.noting import note_queue
from emq_django.protocol import enqueue as admit
from emq_django.protocol import ids
from emq_django.protocol.enqueue import Readmission
from emq_django.worker.log import Quiet

logger = logging.getLogger("emq_django.outbox")

MARK_MS: Final = 86_400_000
BATCH: Final = 500

_TIMEOUT_S: Final = 2.0
_REST_S: Final = 5.0
_ASIDE_S: Final = 300.0  # a row that the server refused is tried again so much later
_quiet = Quiet()
_with_table: set[str] = set()  # aliases; a table that was there stays
_silent_until_s = 0.0


class Relayed(NamedTuple):
    """What a relay did. ``sent`` rows are on the server, ``refused`` ones set aside."""

    sent: int = 0
    refused: int = 0
    error: WireError | None = None  # the server could not be asked; the rest waits


def relay(using: str | None = None, *, most: int | None = None) -> Relayed:
    """Send what waits in the outbox of a database, or of all; at most so many rows.

    Safe to run any number of times, at the same time too. A database that is away keeps none of the
    others waiting; its error is raised when they are done.
    """
    sent = refused = 0
    failure: DatabaseFailure | None = None
    for alias in [using] if using else databases():
        while most is None or sent + refused < most:
            left = BATCH if most is None else min(BATCH, most - sent - refused)
            try:
                done, again = _round(alias, left)
            except DatabaseFailure as exc:
                failure = exc
                break
            sent, refused = sent + done.sent, refused + done.refused
            if done.error is not None:
                return Relayed(sent, refused, done.error)
            if not again:
                break
    if failure is not None:
        raise failure
    return Relayed(sent, refused)


def relay_at_once(using: str) -> None:
    """Send what a transaction wrote, right after its commit; never fails the caller.

    What can't be sent now is sent by a worker.
    """
    global _silent_until_s
    from emq_django.outbox import holding

    if time.monotonic() < _silent_until_s:
        return  # a commit is not kept waiting, again and again, for a server that is away
    try:
        # Each write of a transaction asks for this; the first one sends for all.
        if holding.waits(using):
            done = relay(using, most=BATCH)
            _told(done)
            if done.error is not None:
                _silent_until_s = time.monotonic() + _REST_S
    except DatabaseFailure:
        logger.exception("the outbox could not be relayed after a commit; a worker will")


def chore() -> float:
    """Send what waits, as a worker does it beside its jobs; returns the seconds to rest."""
    _told(relay())
    return _REST_S


def databases() -> list[str]:
    """Return the aliases of the databases that have an outbox, or are away and may have one."""
    if not apps.is_installed("emq_django.outbox"):
        return []
    from emq_django.outbox.models import OutboxJob

    table = OutboxJob._meta.db_table  # noqa: SLF001 - Django's documented place
    return [
        alias
        for alias in connections
        if router.allow_migrate_model(alias, OutboxJob) and _has(alias, table)
    ]


def _has(alias: str, table: str) -> bool:
    try:
        if alias not in _with_table and table in connections[alias].introspection.table_names():
            _with_table.add(alias)
    except DatabaseFailure:
        return True
    return alias in _with_table


def _told(done: Relayed) -> None:
    if done.error is not None and _quiet.may_log(type(done.error)):
        logger.warning("jobs wait in the outbox for the server: %s", done.error)


def _round(using: str, most: int) -> tuple[Relayed, bool]:
    """Send what one relay may hold; also tells whether another round may find more."""
    from emq_django.outbox import holding

    sent: list[int] = []
    refused = 0
    renamed: set[str] = set()
    error: WireError | None = None
    with holding.held(using, most) as rows:
        for row in rows:
            if row.stream in renamed:
                continue
            try:
                if _send(row):
                    sent.append(row.pk)
                else:
                    renamed.add(row.stream)
            except WireError as exc:
                error = exc
                break
            except EmqError as exc:
                refused += 1
                _set_aside(row, exc)
        if sent:
            type(rows[0]).objects.using(using).filter(pk__in=sent).delete()
    return Relayed(len(sent), refused, error), bool(sent or refused or renamed)


def _send(row: Any) -> bool:
    """Send a row; False where its id is another job's and it got a new one, for the next round."""
    queue = keys(row.queue)
    mode: Any = "now" if row.due_ms is None else "at"
    lane, payload = row.lane or None, bytes(row.payload)
    call = admit.readmit(
        queue, row.job_id, payload, lane, mode, row.due_ms or 0, row.unique_key, MARK_MS
    )
    answer = wire_for(queue).run(call, _TIMEOUT_S)
    if answer is Readmission.OTHER:
        _name_anew(row)
        return False
    if isinstance(answer, str):
        logger.info(
            "outbox: not enqueued, its unique key is taken queue=%s id=%s announced=%s",
            row.queue, answer, row.job_id,
        )  # fmt: skip
    note_queue(queue)
    return True


def _name_anew(row: Any) -> None:
    """Give a row another id. It is sent when that is committed, so that no third one is minted."""
    ids.mint.move()
    announced, row.job_id = row.job_id, ids.mint.one()
    row.save(update_fields=["job_id"])
    logger.error(
        "outbox: the id %s announced for queue %s belongs to another job; it is sent as %s",
        announced, row.queue, row.job_id,
    )  # fmt: skip


def _set_aside(row: Any, exc: EmqError) -> None:
    row.failures += 1
    row.last_error = f"{type(exc).__name__}: {exc}"
    row.retry_at = timezone.now() + timedelta(seconds=_ASIDE_S)
    row.save(update_fields=["failures", "last_error", "retry_at"])
    logger.error(
        "outbox: the job %s for queue %s was refused and is tried again in %d s: %s",
        row.job_id, row.queue, _ASIDE_S, exc,
    )  # fmt: skip
