"""Drives the steps of a delivery by hand: no server, no sockets, and time that is only counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from emq_django.delivery import Flush, Pause, Run

if TYPE_CHECKING:
    from emq_django.protocol.calls import Call


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass(frozen=True)
class Takes:
    """An answer that comes after some time; it is the test's fault when that is over the limit."""

    seconds: float
    answer: Any


@dataclass
class Played:
    """What a delivery asked for, and how it ended."""

    runs: list[tuple[Call[Any], float | None]] = field(default_factory=list)
    flushes: list[tuple[list[Call[Any]], float | None]] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    took_s: float = 0.0
    result: Any = None
    error: BaseException | None = None

    @property
    def scripts(self) -> list[str]:
        return [call.script.name for call, _ in self.runs]

    @property
    def ids(self) -> list[Any]:
        return [call.args[0] for call, _ in self.runs]

    @property
    def timeouts(self) -> list[float | None]:
        return [timeout_s for _, timeout_s in self.runs]

    @property
    def flushed(self) -> list[list[str]]:
        return [[call.script.name for call in calls] for calls, _ in self.flushes]


def play(steps: Any, clock: Clock, answers: Iterable[Any]) -> Played:
    """Answer every Run and Flush in turn; errors are thrown in, callables get the step."""
    played, began_s = Played(), clock.now_s
    queue = iter(answers)
    resume: Callable[[Any], Any] = steps.send
    value: Any = None
    while True:
        try:
            step = resume(value)
        except StopIteration as stop:
            played.result = stop.value
            break
        except Exception as exc:  # noqa: BLE001 - the test looks at it
            played.error = exc
            break
        resume, value = steps.send, None
        if isinstance(step, Pause):
            played.pauses.append(step.seconds)
            clock.now_s += step.seconds
            continue
        value = _answer(step, next(queue), clock)
        if isinstance(step, Run):
            played.runs.append((step.call, step.timeout_s))
        else:
            assert isinstance(step, Flush)
            played.flushes.append((list(step.calls), step.timeout_s))
        if isinstance(value, BaseException):
            resume = steps.throw
    played.took_s = clock.now_s - began_s
    return played


def _answer(step: Any, answer: Any, clock: Clock) -> Any:
    if isinstance(answer, Takes):
        limit = step.timeout_s
        clock.now_s += answer.seconds if limit is None else min(answer.seconds, limit)
        answer = answer.answer
    return answer(step) if callable(answer) else answer
