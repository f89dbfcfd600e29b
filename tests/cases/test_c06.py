"""C06: a payload over the limit is refused before a byte of it is sent; under it, it comes back."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User
from django.test import Client

from emq_django.admin.links import Links
from emq_django.conf import conf
from emq_django.errors import PayloadTooLarge
from tests.faces import FACES, Face

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import Settings

    from tests.monitoring import Recording

MIB = 1 << 20
DEFAULT_LIMIT = MIB


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    one = Face(request.param)
    yield one
    one.close()


def some_bytes(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@pytest.mark.parametrize("size", [0, 1, DEFAULT_LIMIT])
def test_payloads_up_to_the_limit_come_back_whole(face: Face, queue: str, size: int) -> None:
    assert conf().max_payload_bytes == DEFAULT_LIMIT
    payload = some_bytes(size)

    face.enqueue_many(queue, [payload])
    face.enqueue(queue, payload)

    for _ in range(2):
        job = face.claim(queue)
        assert hashlib.sha256(job.payload).digest() == hashlib.sha256(payload).digest()


@pytest.mark.slow
def test_64_mib_comes_back_whole_where_the_limit_allows_it(
    face: Face, queue: str, settings: Settings
) -> None:
    settings.EMQ = {**settings.EMQ, "MAX_PAYLOAD_BYTES": 64 * MIB, "ENQUEUE_DEADLINE_S": 30}
    payload = some_bytes(MIB) * 64

    face.enqueue(queue, payload)

    job = face.claim(queue)
    assert hashlib.sha256(job.payload).digest() == hashlib.sha256(payload).digest()
    face.complete(job)


@pytest.mark.parametrize(
    ("limit", "size"),
    [
        (None, DEFAULT_LIMIT + 1),
        (None, 64 * MIB),
        (None, 512 * MIB + 1),
        (512 * MIB, 512 * MIB + 1),
        (0, 1),
    ],
)
def test_over_the_limit_the_error_names_both_and_nothing_is_sent(
    face: Face,
    queue: str,
    settings: Settings,
    monitor: Callable[[], AbstractContextManager[Recording]],
    limit: int | None,
    size: int,
) -> None:
    settings.EMQ = {**settings.EMQ, "MAX_PAYLOAD_BYTES": limit}
    payload = bytes(size)
    allowed = DEFAULT_LIMIT if limit is None else limit
    words = rf"{size:,} bytes.*{allowed:,}"

    with monitor() as recording:
        with pytest.raises(PayloadTooLarge, match=words):
            face.enqueue(queue, payload)
        with pytest.raises(PayloadTooLarge, match=words):
            face.enqueue_in(queue, payload, 5)
        with pytest.raises(PayloadTooLarge, match=words):
            face.enqueue_many(queue, [b"", payload])

    assert recording.commands == []


@pytest.mark.django_db
def test_the_admin_shows_ten_payloads_at_the_limit_cut_and_in_time(queue: str) -> None:
    face = Face("sync")
    face.enqueue_many(queue, [b"A" * DEFAULT_LIMIT] * 10)
    face.close()
    browser = Client()
    browser.force_login(User.objects.create_superuser("root"))
    url = Links("admin").queue(queue)
    assert url is not None
    browser.get(url)  # the first page also compiles templates and opens a connection

    took_s = []
    for _ in range(3):
        began_s = time.perf_counter()
        response = browser.get(url)
        took_s.append(time.perf_counter() - began_s)

    assert response.status_code == 200
    assert min(took_s) <= 0.5
    assert len(response.content) < 100_000
    words = " ".join(response.content.decode().split())
    assert words.count("1.0 MB") >= 10
    assert "AAAA" * 1_000 not in words
