"""C01: a view that enqueues never hangs while the server is away, and works again afterwards."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.test import Client
from django.urls import path

from emq_django import Verdict, enqueue
from emq_django.conf import keys
from emq_django.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django.fixtures import Settings

    from tests.proxy import Proxy
    from tests.servers import Server

THREADS = 20
SOCKET_TIMEOUT_S = 5.0  # what a connection waits by default
ROUNDS = 3  # the machine may be busy with something else in one or two


def view(request: HttpRequest) -> HttpResponse:
    try:
        receipt = enqueue(request.GET["queue"], b"payload")
    except Unreachable as exc:
        return JsonResponse({"error": type(exc).__name__}, status=503)
    return JsonResponse({"verdict": receipt.verdict})


urlpatterns = [path("enqueue/", view)]


class Answer(NamedTuple):
    status: int
    seconds: float


def ask(queue: str) -> Answer:
    started = time.monotonic()
    response = Client().get("/enqueue/", {"queue": queue})
    return Answer(response.status_code, time.monotonic() - started)


def ask_from_threads(queue: str) -> list[Answer]:
    answers: list[Answer] = []
    together = threading.Barrier(THREADS)

    def one() -> None:
        together.wait()
        answers.append(ask(queue))

    threads = [threading.Thread(target=one) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.fixture(params=[ask, ask_from_threads], ids=["one call", "20 threads"])
def asked(request: pytest.FixtureRequest, settings: Settings) -> Callable[[str], list[Answer]]:
    settings.ROOT_URLCONF = __name__

    def call(queue: str) -> list[Answer]:
        found = request.param(queue)
        return found if isinstance(found, list) else [found]

    return call


def one_timeout_each(ask_once: Callable[[], list[Answer]]) -> None:
    """Have all refused after one socket timeout: never two in a row, and in a round within 1 s."""
    for _ in range(ROUNDS):
        answers = ask_once()
        assert {answer.status for answer in answers} == {503}
        slowest_s = max(answer.seconds for answer in answers)
        assert slowest_s < 2 * SOCKET_TIMEOUT_S
        if slowest_s <= SOCKET_TIMEOUT_S + 1:
            return
    pytest.fail(f"in none of {ROUNDS} rounds were all refused within 1 s of the timeout")


def use(settings: Settings, url: str, deadline_s: float | None = None) -> None:
    settings.CACHES = {"queue": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": url}}
    settings.EMQ = {**settings.EMQ, "CONNECTION": "queue", "ENQUEUE_DEADLINE_S": deadline_s}


def test_c01a_a_closed_port_is_an_error_within_a_second(
    asked: Callable[[str], list[Answer]],
    fresh_server: Callable[..., Server],
    settings: Settings,
    queue: str,
) -> None:
    server = fresh_server()
    server.stop()
    use(settings, server.url)

    slowest_s = []
    for _ in range(ROUNDS):
        answers = asked(queue)
        assert {answer.status for answer in answers} == {503}
        slowest_s.append(max(answer.seconds for answer in answers))
    assert min(slowest_s) <= 1.0
    assert max(slowest_s) < SOCKET_TIMEOUT_S

    server.start()
    assert {answer.status for answer in asked(queue)} == {200}


@pytest.mark.slow
def test_c01b_a_frozen_server_costs_one_socket_timeout(
    asked: Callable[[str], list[Answer]],
    fresh_server: Callable[..., Server],
    settings: Settings,
    queue: str,
) -> None:
    server = fresh_server()
    use(settings, server.url)
    in_sight: list[float] = []

    def ask_a_frozen_one() -> list[Answer]:
        assert {answer.status for answer in asked(queue)} == {200}
        with server.client() as client:
            before = client.zcard(keys(queue).pending)
        server.freeze()
        answers = asked(queue)
        again = asked(queue)
        server.thaw()
        assert {answer.status for answer in again} == {503}
        in_sight.append(max(answer.seconds for answer in again))
        assert enqueue(queue, b"after").verdict is Verdict.ENQUEUED
        with server.client() as client:
            # What had been sent may run once the server goes on, and each of it once at most.
            most = before + len(answers) + len(again) + 1
            assert before < client.zcard(keys(queue).pending) <= most
        return answers

    one_timeout_each(ask_a_frozen_one)

    # A server that is known to be away by then is not waited for once more.
    assert max(in_sight) < SOCKET_TIMEOUT_S
    assert min(in_sight) <= 2


@pytest.mark.slow
def test_c01c_a_server_that_never_answers_costs_one_socket_timeout(
    asked: Callable[[str], list[Answer]], proxy: Proxy, settings: Settings, queue: str
) -> None:
    use(settings, proxy.url)

    def ask_one_that_is_not_known() -> list[Answer]:
        proxy.mode = "forward"
        assert {answer.status for answer in asked(queue)} == {200}
        proxy.mode = "blackhole"
        proxy.drop_connections()  # so that new ones are made, which get no answer
        return asked(queue)

    one_timeout_each(ask_one_that_is_not_known)

    proxy.mode = "forward"
    assert {answer.status for answer in asked(queue)} == {200}


def test_c01c_a_shorter_deadline_is_kept(
    asked: Callable[[str], list[Answer]], proxy: Proxy, settings: Settings, queue: str
) -> None:
    use(settings, proxy.url, deadline_s=0.5)
    proxy.mode = "blackhole"

    answers = asked(queue)

    assert {answer.status for answer in answers} == {503}
    assert max(answer.seconds for answer in answers) <= 1.5
