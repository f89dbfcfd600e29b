"""Figures over time as drawings: numbers to the places of bars and lines. Pure; no markup here.

The template draws them as SVG with presentation attributes, coloured by the admin's variables, with
the same figures in a table beside them. Places are text already: a locale must not touch them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from emq_django.protocol.metrics import GRAIN_MS, Depth, Figures, Grain, History

WIDTH: Final = 720
HEIGHT: Final = 160
_LEFT: Final = 8
_BINS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time that a page can show."""

    grain: Grain
    count: int  # of the grain
    per_bin: int


SPANS: Final = {
    "1h": Span(grain="minute", count=60, per_bin=1),
    "9h": Span(grain="minute", count=540, per_bin=9),
    "14d": Span(grain="hour", count=336, per_bin=6),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """What was counted in one bar's time."""

    start_ms: int
    figures: Figures
    depth: Depth | None = None  # the one with most jobs waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One part of a bar."""

    kind: str
    x: str
    y: str
    width: str
    height: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A curve; it breaks where nothing was counted."""

    kind: str
    points: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Stacked bars and the value that the top stands for."""

    bars: list[Bar]
    top: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Curves over one scale and what the top stands for."""

    lines: list[Line]
    top: float


def bins(history: History, span: Span, depths: Sequence[Depth] = ()) -> list[Bin]:
    """Return what was counted and noted, one bin for each bar, the current one last."""
    width_ms = GRAIN_MS[span.grain] * span.per_bin
    count = span.count // span.per_bin
    last = history.now_ms // width_ms * width_ms
    found = {last - back * width_ms: Figures() for back in range(count)}
    for stretch in history.stretches:
        start = stretch.start_ms // width_ms * width_ms
        if start in found:
            found[start].merge(stretch.figures)
    deepest: dict[int, Depth] = {}
    for depth in depths:
        start = depth.start_ms // width_ms * width_ms
        if start not in deepest or depth.waiting > deepest[start].waiting:
            deepest[start] = depth
    return [
        Bin(start_ms=start, figures=found[start], depth=deepest.get(start))
        for start in sorted(found)
    ]


def stacked(shown: Sequence[Bin], kinds: Sequence[str]) -> Bars:
    """Return bars in which the kinds stand on each other, the first one at the bottom."""
    sums = [sum(getattr(one.figures, kind) for kind in kinds) for one in shown]
    top = _round_up(max(sums, default=0))
    step = (WIDTH - _LEFT) / max(len(shown), 1)
    bars = []
    for place, one in enumerate(shown):
        floor = float(HEIGHT)
        for kind in kinds:
            height = getattr(one.figures, kind) / top * (HEIGHT - 10) if top else 0
            if height <= 0:
                continue
            floor -= height
            bars.append(
                Bar(
                    kind=kind,
                    x=f"{_LEFT + place * step + step * 0.1:.1f}",
                    y=f"{floor:.1f}",
                    width=f"{step * 0.8:.1f}",
                    height=f"{height:.1f}",
                )
            )
    return Bars(bars=bars, top=top)


def curves(shown: Sequence[Bin], what: str) -> Lines:
    """Return the median and the 95th percentile of ``run`` or ``wait``."""
    shares = {"p50": 0.5, "p95": 0.95}
    values = {
        kind: [getattr(one.figures, what).percentile_ms(share) for one in shown]
        for kind, share in shares.items()
    }
    top = max((one for row in values.values() for one in row if one is not None), default=0.0)
    return _lines(values, top)


def depth(shown: Sequence[Bin]) -> Lines:
    """Return how many jobs waited and how many were in workers' hands."""
    noted = [one.depth for one in shown]
    values: dict[str, list[float | None]] = {
        "waiting": [None if one is None else one.waiting for one in noted],
        "active": [None if one is None else one.active for one in noted],
    }
    largest = max((one for row in values.values() for one in row if one is not None), default=0)
    return _lines(values, _round_up(int(largest)))


def _lines(values: Mapping[str, Sequence[float | None]], top: float) -> Lines:
    step = (WIDTH - _LEFT) / max(*map(len, values.values()), 1)
    return Lines(
        lines=[Line(kind=kind, points=_pieces(row, step, top)) for kind, row in values.items()],
        top=top,
    )


def _pieces(values: Sequence[float | None], step: float, top: float) -> list[str]:
    pieces: list[list[str]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            pieces.append([])
            continue
        x = _LEFT + place * step + step / 2
        y = HEIGHT - (value / top * (HEIGHT - 10) if top else 0)
        pieces[-1].append(f"{x:.1f},{y:.1f}")
    # A point by itself would not be seen as a line: make it as wide as its bin.
    return [
        " ".join(piece if len(piece) > 1 else [piece[0], _beside(piece[0], step)])
        for piece in pieces
        if piece
    ]


def _beside(point: str, step: float) -> str:
    x, y = point.split(",")
    return f"{float(x) + step * 0.4:.1f},{y}"


def _round_up(value: int) -> int:
    """Return the next of 1, 2, 5, 10, 20, 50 … that is no less."""
    size = 1
    while True:
        for digit in (1, 2, 5):
            if value <= digit * size:
                return digit * size
        size *= 10
