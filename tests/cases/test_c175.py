"""C175: a test's helpers take away what the test made, and nothing else on the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from emq_django import enqueue, testing
from emq_django.conf import conf
from tests.task_backend import zoo
from tests.testing.test_helpers import prefix

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    import redis

    from tests.monitoring import Recording

__all__ = ["prefix"]

LANE = "USR0KHTOWnGLuC"


def test_the_queues_are_gone_afterwards_and_others_are_not_touched(
    redis_client: redis.Redis,
) -> None:
    redis_client.set("mark", 1)
    before = set(redis_client.scan_iter())

    with testing.isolated() as made, testing.override_emq(QUEUES={"vip": {"PRIORITIES": True}}):
        enqueue("unheard of", b"x")
        zoo.add.using(queue_name="vip", priority=5).enqueue(1)
        zoo.add.using(lane=LANE).enqueue(2)
        zoo.add.enqueue(3)
        testing.run_pending("vip", "default")
        assert conf().queue_prefix == made
        assert [key for key in redis_client.scan_iter() if made.encode() in key]
        testing.isolation._remove_all()  # within its settings; isolated() does it for those it set

    left = {key for key in redis_client.scan_iter() if b":done" not in key} - before
    assert {key for key in left if made.encode() in key} == set()
    assert redis_client.get("mark") == b"1"
    assert made.encode() + b"unheard of" not in redis_client.smembers("{emq}:dj:queues")
    redis_client.delete("mark")


@pytest.mark.usefixtures("prefix")
def test_no_database_is_flushed(monitor: Callable[[], AbstractContextManager[Recording]]) -> None:
    with monitor() as recording, testing.isolated(), testing.immediate():
        zoo.add.enqueue(1)

    sent = [str(command).upper() for command in recording.commands]
    assert sent
    assert not [command for command in sent if "FLUSH" in command]
