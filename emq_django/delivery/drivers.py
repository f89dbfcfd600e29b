"""Run the steps of a delivery: one driver waits, the other awaits. Keep them alike.

The place of a wire may be taken by an object that a caller gave as ``via``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from emq_django.delivery.patience import PASSING, Patience
from emq_django.delivery.single import Admission, admission
from emq_django.delivery.steps import Flush, Run, Steps, T
from emq_django.errors import EmqError
from emq_django.protocol.calls import Call
from emq_django.protocol.ids import mint
from emq_django.protocol.records import Receipt, Verdict


def drive(wire: Any, steps: Steps[T], value: Any = None) -> T:
    """Run steps on a sync wire. Errors that are not ours go to the caller and end the steps.

    ``value`` answers the step that the steps wait at, when they have begun.
    """
    resume: Any = steps.throw if isinstance(value, EmqError) else steps.send
    try:
        while True:
            try:
                step = resume(value)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            resume, value = steps.send, None
            try:
                if isinstance(step, Run):
                    value = wire.run(step.call, step.timeout_s)
                elif isinstance(step, Flush):
                    value = wire.run_many(step.calls, step.timeout_s)
                else:
                    time.sleep(step.seconds)
            except EmqError as exc:
                resume, value = steps.throw, exc
    finally:
        steps.close()


async def adrive(wire: Any, steps: Steps[T], value: Any = None) -> T:
    """Run steps on an asyncio wire: the same loop, awaited."""
    resume: Any = steps.throw if isinstance(value, EmqError) else steps.send
    try:
        while True:
            try:
                step = resume(value)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            resume, value = steps.send, None
            try:
                if isinstance(step, Run):
                    value = await wire.run(step.call, step.timeout_s)
                elif isinstance(step, Flush):
                    value = await wire.run_many(step.calls, step.timeout_s)
                else:
                    await asyncio.sleep(step.seconds)
            except EmqError as exc:
                resume, value = steps.throw, exc
    finally:
        steps.close()


def admit(wire: Any, job: Admission, patience: Patience) -> Receipt:
    """Run the steps of ``admission`` on a sync wire.

    The first attempt is nearly always the only one, so it is made without the machinery, which
    costs a tenth of an enqueue. When it fails, the steps go on from there.
    """
    if patience.down:
        return drive(wire, admission(job, patience))
    began_s = patience.clock()
    job_id = job.job_id or mint.one()
    try:
        outcome = wire.run(job.first(job_id), patience.first_s)
    except PASSING as exc:
        outcome = exc
    else:
        if outcome is not Verdict.DUPLICATE and not patience.down:
            return Receipt(job_id, outcome)
    return drive(wire, _after_first(job, patience, job_id, began_s), outcome)


async def aadmit(wire: Any, job: Admission, patience: Patience) -> Receipt:
    """Run the steps of ``admission`` on an asyncio wire: the same, awaited."""
    if patience.down:
        return await adrive(wire, admission(job, patience))
    began_s = patience.clock()
    job_id = job.job_id or mint.one()
    try:
        outcome = await wire.run(job.first(job_id), patience.first_s)
    except PASSING as exc:
        outcome = exc
    else:
        if outcome is not Verdict.DUPLICATE and not patience.down:
            return Receipt(job_id, outcome)
    return await adrive(wire, _after_first(job, patience, job_id, began_s), outcome)


def _after_first(job: Admission, patience: Patience, job_id: str, began_s: float) -> Steps[Receipt]:
    """Return steps that wait for the answer to the attempt that was made."""
    steps = admission(job, patience, job_id, began_s)
    next(steps)
    return steps


class Carried:
    """Lets a ``via`` stand where a wire does: its ``run(call)`` is all that is asked of it."""

    def __init__(self, via: Any) -> None:
        self._via = via

    def run(self, call: Call[Any], timeout_s: float | None) -> Any:
        """Run one Call."""
        del timeout_s
        return self._via.run(call)

    def run_many(self, calls: Sequence[Call[Any]], timeout_s: float | None) -> list[Any]:
        """Run Calls one after the other; a result or an error of ours for each."""
        del timeout_s
        answers = []
        for call in calls:
            try:
                answers.append(self._via.run(call))
            except EmqError as exc:
                answers.append(exc)
        return answers


class AsyncCarried:
    """The same, awaited."""

    def __init__(self, via: Any) -> None:
        self._via = via

    async def run(self, call: Call[Any], timeout_s: float | None) -> Any:
        """Run one Call."""
        del timeout_s
        return await self._via.run(call)

    async def run_many(self, calls: Sequence[Call[Any]], timeout_s: float | None) -> list[Any]:
        """Run Calls one after the other; a result or an error of ours for each."""
        del timeout_s
        answers = []
        for call in calls:
            try:
                answers.append(await self._via.run(call))
            except EmqError as exc:
                answers.append(exc)
        return answers
