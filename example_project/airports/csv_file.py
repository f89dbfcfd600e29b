"""Reads an uploaded file as a stream: what is wrong with the whole file is found here.

What is wrong with one row is found later, by the job that stores it (rows.py).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from example_project.airports.rows import REQUIRED, visible

ROWS_PER_CHUNK = 250
MAX_BYTES = 10 * 1024 * 1024
MAX_ROWS = 100_000
# In the worst case a character takes six bytes of JSON, so the largest chunk is 750 kB: under
# the 1 MiB that a payload may have.
MAX_ROW_CHARACTERS = 500


class FileRefused(Exception):
    """The file as a whole cannot be imported; the message says why."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a file, each with the line where it ends."""

    columns: list[str]
    rows: list[tuple[int, list[str]]]


def read_chunks(file: IO[bytes], size: int = ROWS_PER_CHUNK) -> Iterator[Chunk]:
    """Yield the rows of a CSV file in chunks. Raises FileRefused, possibly after some chunks."""
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        reader = csv.reader(text, strict=True)
        columns = _read_header(reader)
        rows: list[tuple[int, list[str]]] = []
        for count, cells in enumerate(_filled(reader), start=1):
            if count > MAX_ROWS:
                raise FileRefused(f"The file has more than {MAX_ROWS:,} rows.")
            if sum(map(len, cells)) + len(cells) > MAX_ROW_CHARACTERS:
                raise FileRefused(
                    f"The row that ends in line {reader.line_num:,} is longer than"
                    f" {MAX_ROW_CHARACTERS} characters. Is a quotation mark missing?"
                )
            rows.append((reader.line_num, cells))
            if len(rows) == size:
                yield Chunk(columns, rows)
                rows = []
        if rows:
            yield Chunk(columns, rows)
    except UnicodeDecodeError as exc:
        raise FileRefused(f"The file is not UTF-8 text: {exc.reason}.") from exc
    except csv.Error as exc:
        raise FileRefused(f"Line {reader.line_num:,} is not valid CSV: {exc}.") from exc
    finally:
        text.detach()  # the upload stays open: its owner closes it


def _filled(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    return (cells for cells in reader if cells)


def _read_header(reader: Iterator[list[str]]) -> list[str]:
    columns = [name.strip().lower() for name in next(_filled(reader), [])]
    if not columns:
        raise FileRefused("The file is empty.")
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise FileRefused(
            f"The first line must name the columns. Missing: {', '.join(missing)}."
            f" Found: {visible(', '.join(columns))}."
        )
    if len(set(columns)) < len(columns):
        raise FileRefused(f"A column is named twice: {visible(', '.join(columns))}.")
    if sum(map(len, columns)) > MAX_ROW_CHARACTERS:
        raise FileRefused(f"The first line is longer than {MAX_ROW_CHARACTERS} characters.")
    return columns
