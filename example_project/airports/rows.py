"""Judges one row: it goes in, an airport or a reason comes out. No database, no Django."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

REQUIRED = ("icao", "name", "city", "country", "elevation", "lat", "lon", "tz")
OPTIONAL = ("iata", "subd")

_ICAO = re.compile(r"[A-Z0-9]{4}", re.ASCII)
_IATA = re.compile(r"[A-Z0-9]{3}", re.ASCII)
_COUNTRY = re.compile(r"[A-Z]{2}", re.ASCII)
# A shape and not the list of this machine's zones: every worker must judge a row alike.
_TIME_ZONE = re.compile(r"[A-Z][A-Za-z]+(/[A-Za-z0-9_+-]+){1,2}", re.ASCII)
# float() takes "nan", "inf", "1_000" and the digits of other scripts as well.
_NUMBER = re.compile(r"-?\d{1,6}(\.\d{1,12})?", re.ASCII)
_SHOWN_CHARACTERS = 200


class RowRefused(Exception):
    """The row cannot be stored; the message says why, in words for the person who uploaded it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AirportRow:
    code: str
    iata: str
    name: str
    city: str
    region: str
    country: str
    elevation_ft: float
    latitude: float
    longitude: float
    time_zone: str


def read_row(columns: Sequence[str], cells: Sequence[str]) -> AirportRow:
    """Return the airport that a row describes. Raises RowRefused."""
    if len(cells) != len(columns):
        raise RowRefused(f"{len(cells)} cells where the header names {len(columns)} columns")
    row = dict(zip(columns, (cell.strip() for cell in cells), strict=True))
    country = _matching(row["country"], _COUNTRY, "country", "a two-letter country code")
    # Only Antarctica has airfields without a civil time zone.
    zone_may_be_missing = country == "AQ" and not row["tz"]
    iata = row.get("iata", "")
    return AirportRow(
        code=_matching(row["icao"], _ICAO, "icao", "an ICAO code of four letters or digits"),
        iata=_matching(iata, _IATA, "iata", "an IATA code of three letters or digits")
        if iata
        else "",
        name=_text(row["name"], "name", 120),
        city=_text(row["city"], "city", 80, may_be_empty=True),
        region=_text(row.get("subd", ""), "subd", 80, may_be_empty=True),
        country=country,
        elevation_ft=_number(row["elevation"], "elevation", -2_000, 30_000),
        latitude=_number(row["lat"], "lat", -90, 90),
        longitude=_number(row["lon"], "lon", -180, 180),
        time_zone=""
        if zone_may_be_missing
        else _matching(row["tz"], _TIME_ZONE, "tz", "a time zone such as Europe/Lisbon"),
    )


def visible(text: str, limit: int = _SHOWN_CHARACTERS) -> str:
    """Return text cut to a length, with every character that a screen would hide escaped."""
    shown = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
    return shown if len(shown) <= limit else f"{shown[:limit]}…"


def _matching(value: str, pattern: re.Pattern[str], column: str, what: str) -> str:
    if not pattern.fullmatch(value):
        raise RowRefused(f"{column} “{visible(value, 40)}” is not {what}")
    return value


def _text(value: str, column: str, most: int, *, may_be_empty: bool = False) -> str:
    if not value and not may_be_empty:
        raise RowRefused(f"{column} is empty")
    if len(value) > most:
        raise RowRefused(f"{column} has {len(value)} characters; at most {most} are stored")
    for char in value:
        if not char.isprintable():
            raise RowRefused(f"{column} has an invisible character, U+{ord(char):04X}")
    return value


def _number(value: str, column: str, least: float, most: float) -> float:
    if not _NUMBER.fullmatch(value):
        raise RowRefused(f"{column} “{visible(value, 40)}” is not a number")
    number = float(value)
    if not least <= number <= most:
        raise RowRefused(f"{column} {value} is not between {least:,} and {most:,}")
    return number
