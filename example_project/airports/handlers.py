"""Runs in the worker: one call per job of the queue `imports`."""

from __future__ import annotations

import logging
from collections.abc import Container
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from django.db import transaction

from example_project.airports.models import Airport, Import, ImportChunk, RowError
from example_project.airports.payloads import ChunkPayload
from example_project.airports.rows import AirportRow, RowRefused, read_row, visible

if TYPE_CHECKING:
    from emq_django.worker.job import Job

logger = logging.getLogger(__name__)

_UPDATED = [field.name for field in fields(AirportRow) if field.name != "code"]


def on_chunk(job: Job) -> None:
    """Store a chunk's rows. A job may run twice: the second run leaves what the first one left."""
    payload = ChunkPayload.from_bytes(job.payload)
    airports, errors = judge(payload)
    with transaction.atomic():
        imported = Import.objects.filter(pk=payload.import_id).first()
        if imported is None:
            logger.warning("Import %s is gone; job %s has nothing to do", payload.import_id, job.id)
            return
        Airport.objects.bulk_create(
            airports, update_conflicts=True, unique_fields=["code"], update_fields=_UPDATED
        )
        chunk, _ = ImportChunk.objects.update_or_create(
            imported=imported,
            number=payload.number,
            defaults={"stored": len(airports), "refused": len(errors)},
        )
        chunk.errors.all().delete()
        for error in errors:
            error.chunk = chunk
        RowError.objects.bulk_create(errors)


def judge(payload: ChunkPayload) -> tuple[list[Airport], list[RowError]]:
    """Return what a chunk would store and what it refuses. Touches no database."""
    airports: dict[str, Airport] = {}
    errors: list[RowError] = []
    for line, cells in payload.chunk.rows:
        try:
            row = read_row(payload.chunk.columns, cells)
            _refuse_second(row.code, airports)
        except RowRefused as exc:
            text = visible(", ".join(cells))
            errors.append(RowError(line=line, text=text, reason=str(exc)))
        else:
            airports[row.code] = Airport(**asdict(row))
    return list(airports.values()), errors


def _refuse_second(code: str, seen: Container[str]) -> None:
    if code in seen:
        raise RowRefused(f"icao {code} stands in an earlier row of this file too")
