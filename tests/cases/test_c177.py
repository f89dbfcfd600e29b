"""C177: a call on commit inside a TestCase, which never commits, and what the helpers say of it."""

from __future__ import annotations

import pytest
from django.db import transaction
from django.test import TestCase

from emq_django import testing
from tests.task_backend import zoo
from tests.testing.test_helpers import prefix

__all__ = ["prefix"]


@pytest.mark.django_db
def test_a_call_that_waits_for_a_commit_that_never_comes_is_explained() -> None:
    with transaction.atomic():
        zoo.add.enqueue_on_commit(1)

    with pytest.raises(AssertionError, match="captureOnCommitCallbacks"):
        testing.assert_enqueued(zoo.add)


@pytest.mark.django_db
def test_captured_callbacks_leave_and_those_of_a_rolled_back_savepoint_do_not() -> None:
    with TestCase.captureOnCommitCallbacks(execute=True):
        with transaction.atomic():
            zoo.add.enqueue_on_commit(1)
        with transaction.atomic():
            zoo.add.enqueue_on_commit(2)
            transaction.set_rollback(True)

    testing.assert_enqueued(zoo.add, args=[1], times=1)
    testing.assert_enqueued(times=1)


@pytest.mark.django_db(transaction=True)
def test_a_real_commit_needs_no_help() -> None:
    with transaction.atomic():
        zoo.add.enqueue_on_commit(1)
        testing.assert_not_enqueued()
    testing.assert_enqueued(zoo.add, times=1)
