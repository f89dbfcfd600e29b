"""The trace context of a call: carried in its envelope, so that a run can continue the trace.

Without OpenTelemetry in the process nothing is carried and nothing is imported.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Final

_UNTRACED: Final = contextlib.nullcontext()


def current() -> dict[str, str] | None:
    """Return the W3C trace context of the running code, None for none."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    propagate = importlib.import_module("opentelemetry.propagate")
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier or None


def continued(trace: Mapping[str, str] | None) -> AbstractContextManager[None]:
    """Run a block as a part of the trace that its call was made in."""
    if not trace or "opentelemetry.trace" not in sys.modules:
        return _UNTRACED
    return _as_part_of(trace)


@contextlib.contextmanager
def _as_part_of(trace: Mapping[str, str]) -> Iterator[None]:
    propagate = importlib.import_module("opentelemetry.propagate")
    context = importlib.import_module("opentelemetry.context")
    token = context.attach(propagate.extract(trace))
    try:
        yield
    finally:
        context.detach(token)
