"""Which rows one relay may send: of each stream all up to the first that another relay holds.

A relay holds the first row of a stream before any other, so a stream is one relay's at a time. On a
database with SKIP LOCKED the rows stay locked until the transaction ends; elsewhere a column says
who holds them and until when, so that a relay that died lets go.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db import connections, transaction
from django.db.models import Min, Q, QuerySet
from django.utils import timezone

from emq_django.outbox.models import OutboxJob

HELD_S: Final = 60.0

_STREAMS: Final = 20  # per round, so that a hundred relays find something to do


@contextlib.contextmanager
def held(using: str, most: int) -> Iterator[list[OutboxJob]]:
    """Hold up to ``most`` rows while the block sends them, in the order in which to send."""
    if connections[using].features.has_select_for_update_skip_locked:
        with transaction.atomic(using=using):
            heads = list(_waiting(using).filter(id__in=_heads(using, most)).select_for_update(
                skip_locked=True))  # fmt: skip
            rows = _of(using, heads, most)
            mine = set(
                _waiting(using)
                .filter(id__in=[row.id for row in rows])
                .select_for_update(skip_locked=True)
                .values_list("id", flat=True)
            )
            yield _unbroken(rows, mine)
        return
    name, until = secrets.token_hex(16), timezone.now() + timedelta(seconds=HELD_S)
    heads = _lease(using, _heads(using, most), name, until)
    try:
        rows = _of(using, heads, most)
        mine = {row.id for row in _lease(using, [row.id for row in rows], name, until)}
        yield _unbroken(rows, mine)
    finally:
        _rows(using).filter(held_by=name).update(held_by="", held_until=None)


def waits(using: str) -> bool:
    """Tell whether there is a row to be sent."""
    return _waiting(using).exists()


def _rows(using: str) -> QuerySet[OutboxJob]:
    return OutboxJob.objects.using(using).order_by("id")


def _waiting(using: str) -> QuerySet[OutboxJob]:
    return _rows(using).filter(Q(retry_at=None) | Q(retry_at__lte=timezone.now()))


def _heads(using: str, most: int) -> list[int]:
    heads = _waiting(using).order_by().values("stream").annotate(head=Min("id")).order_by("head")
    return [one["head"] for one in heads[: min(_STREAMS, most)]]


def _of(using: str, heads: Sequence[OutboxJob], most: int) -> list[OutboxJob]:
    streams = {head.stream for head in heads}
    return list(_waiting(using).filter(stream__in=streams)[:most]) if streams else []


def _lease(using: str, wanted: Sequence[int], name: str, until: datetime) -> list[OutboxJob]:
    free = Q(held_until=None) | Q(held_until__lt=timezone.now()) | Q(held_by=name)
    _rows(using).filter(free, id__in=wanted).update(held_by=name, held_until=until)
    return list(_rows(using).filter(held_by=name, id__in=wanted))


def _unbroken(rows: Sequence[OutboxJob], mine: set[int]) -> list[OutboxJob]:
    """Return rows of which no earlier one of the stream is in other hands."""
    broken: set[str] = set()
    kept = []
    for row in rows:
        if row.id not in mine:
            broken.add(row.stream)
        elif row.stream not in broken:
            kept.append(row)
    return kept
