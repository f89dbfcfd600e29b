"""The outbox: nothing lost and nothing admitted twice, whatever fails after a commit."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import InterfaceError, OperationalError, connections, transaction
from django.test import override_settings
from django.utils import timezone

from emq_django import outbox
from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.errors import ConfigError, InvalidInput
from emq_django.outbox import holding
from emq_django.outbox.models import OutboxJob
from emq_django.outbox.relaying import chore, databases
from emq_django.protocol import claim, enqueue, read, settle
from emq_django.protocol.ids import mint
from emq_django.protocol.records import JobSet, Verdict
from tests.task_backend import zoo
from tests.task_backend.conftest import TASKS, desk
from tests.worker.processes import until

if TYPE_CHECKING:
    import redis

    from tests.proxy import Proxy
    from tests.task_backend.conftest import Desk

__all__ = ["desk"]

LANE, OTHER_LANE = "USR0KHTOWnGLuC", "USR0NgWEfAEJfs"
AWAY = "redis://127.0.0.1:1/0"


@pytest.fixture(autouse=True)
def _not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test is kept from relaying by a server that was away in another."""
    module = sys.modules["emq_django.outbox.relaying"]
    monkeypatch.setattr(module, "_silent_until_s", 0.0)
    monkeypatch.setattr(module, "_quiet", module.Quiet())


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writing process does not relay after its commit: the test does."""
    monkeypatch.setattr(sys.modules["emq_django.outbox.relaying"], "relay_at_once", lambda _: None)


def rows(alias: str) -> int:
    return OutboxJob.objects.using(alias).count()


def waiting(queue: str) -> list[str]:
    page = wire_for(keys(queue)).run(read.page(keys(queue), JobSet.PENDING, 1_000))
    return [entry.id for entry in page.entries]


def finish(queue: str) -> str:
    """Claim and complete a job as a foreign worker does it: without a mark."""
    wire = wire_for(keys(queue))
    job = wire.run(claim.claim(keys(queue), 30_000))
    assert job is not None
    wire.run(settle.complete(keys(queue), job))
    return job.id


def at(url: str) -> override_settings:
    return override_settings(EMQ={**settings.EMQ, "CONNECTION": url, "ENQUEUE_DEADLINE_S": 0})


def test_a_job_leaves_when_its_transaction_commits(alias: str, queue: str) -> None:
    with transaction.atomic(using=alias):
        receipt = outbox.enqueue(queue, b"x", using=alias)
        assert waiting(queue) == []
        assert rows(alias) == 1

    assert receipt.verdict is Verdict.DEFERRED
    assert waiting(queue) == [receipt.id]
    assert rows(alias) == 0


def test_a_transaction_that_rolls_back_leaves_nothing(alias: str, queue: str) -> None:
    with transaction.atomic(using=alias):
        outbox.enqueue(queue, b"x", using=alias)
        with transaction.atomic(using=alias):
            outbox.enqueue(queue, b"y", using=alias)
            transaction.set_rollback(True, using=alias)
        transaction.set_rollback(True, using=alias)

    assert rows(alias) == 0
    assert outbox.relay(alias).sent == 0
    assert waiting(queue) == []


def test_without_a_transaction_it_leaves_at_once(alias: str, queue: str) -> None:
    receipt = outbox.enqueue(queue, b"x", using=alias)

    assert waiting(queue) == [receipt.id]


def test_a_server_that_is_away_at_commit_costs_nothing(
    alias: str, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    with at(AWAY), transaction.atomic(using=alias):
        first = outbox.enqueue(queue, b"x", using=alias)
    with at(AWAY):
        second = outbox.enqueue(queue, b"y", using=alias)
        assert outbox.relay(alias).error is not None
    assert rows(alias) == 2

    assert outbox.relay(alias).sent == 2

    assert waiting(queue) == [first.id, second.id]
    assert rows(alias) == 0
    assert len([one for one in caplog.records if "wait in the outbox" in one.getMessage()]) == 1


def test_a_lost_reply_admits_the_job_once(alias: str, queue: str, proxy: Proxy) -> None:
    with at(proxy.url), transaction.atomic(using=alias):
        wire_for(keys(queue)).run(read.counts(keys(queue)))  # connected, and scripts are known
        proxy.arm("drop_reply", matching=b"EVALSHA")
        receipt = outbox.enqueue(queue, b"x", using=alias)

    assert waiting(queue) == [receipt.id]  # it got through
    assert rows(alias) == 1  # and nobody knows
    assert outbox.relay(alias).sent == 1
    assert waiting(queue) == [receipt.id]
    assert rows(alias) == 0


@pytest.mark.usefixtures("by_hand")
def test_a_job_that_a_foreign_worker_has_completed_is_not_admitted_again(
    alias: str, queue: str, redis_client: redis.Redis
) -> None:
    """The relay died between the admission and the delete; the job has run since."""
    receipt = outbox.enqueue(queue, b"x", using=alias)
    row = OutboxJob.objects.using(alias).get()
    call = enqueue.readmit(keys(queue), row.job_id, bytes(row.payload), mark_ms=86_400_000)
    wire_for(keys(queue)).run(call)
    assert finish(queue) == receipt.id

    assert outbox.relay(alias).sent == 1

    assert waiting(queue) == []
    left_ms = redis_client.pttl(keys(queue).row(receipt.id) + b":relayed")
    assert 86_000_000 < left_ms <= 86_400_000


DIES = """
import os, sys, django
django.setup()
from django.db import InterfaceError, OperationalError, connections, transaction
from emq_django import outbox
alias, queue, folder = sys.argv[1:]
if folder:
    made = {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "tests"}
    made["HOST"] = folder
    connections.settings.update(
        {alias: connections.configure_settings({"default": {}, alias: made})[alias]})
with transaction.atomic(using=alias):
    transaction.on_commit(lambda: os._exit(9), using=alias)
    for n in range(3):
        outbox.enqueue(queue, b"%d" % n, using=alias)
"""


@pytest.mark.slow
def test_a_process_that_dies_after_its_commit_leaves_its_jobs_to_others(
    alias: str, queue: str
) -> None:
    folder = connections[alias].settings_dict["HOST"]
    done = subprocess.run(
        [sys.executable, "-c", DIES, alias, queue, folder],
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
    )
    assert done.returncode == 9
    assert waiting(queue) == []

    assert outbox.relay(alias).sent == 3

    assert len(waiting(queue)) == 3


@pytest.mark.usefixtures("by_hand")
def test_many_relays_at_once_send_each_job_once_and_each_lane_in_order(
    alias: str, queue: str
) -> None:
    lanes = (None, LANE, OTHER_LANE)
    sent: dict[str | None, list[str]] = {lane: [] for lane in lanes}
    for number in range(90):
        lane = lanes[number % 3]
        sent[lane].append(outbox.enqueue(queue, b"%d" % number, lane=lane, using=alias).id)
    admitted: list[str] = []
    module: Any = sys.modules["emq_django.outbox.relaying"]
    send = module._send

    def noting(row: Any) -> bool:
        done: bool = send(row)
        admitted.append(row.job_id)
        return done

    module._send = noting
    totals: list[int] = []

    def relay_all() -> None:
        try:
            while rows(alias):
                totals.append(outbox.relay(alias, most=7).sent)
        finally:
            connections[alias].close()

    threads = [threading.Thread(target=relay_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    module._send = send

    assert sum(totals) == 90
    assert len(admitted) == len(set(admitted)) == 90
    for lane in lanes:
        assert [one for one in admitted if one in sent[lane]] == sent[lane]
    assert waiting(queue) == sent[None]


@pytest.mark.usefixtures("by_hand")
def test_rows_that_another_relay_holds_are_left_to_it(alias: str, queue: str) -> None:
    for _ in range(3):
        outbox.enqueue(queue, b"x", lane=LANE, using=alias)
    free = outbox.enqueue(queue, b"y", using=alias)
    ready, end = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with holding.held(alias, 1) as mine:
                assert {row.lane for row in mine} == {LANE}
                ready.set()
                end.wait(10)
        finally:
            connections[alias].close()

    thread = threading.Thread(target=hold)
    thread.start()
    assert ready.wait(10)
    assert outbox.relay(alias).sent == 1
    assert waiting(queue) == [free.id]
    end.set()
    thread.join()
    assert outbox.relay(alias).sent == 3


@pytest.mark.usefixtures("by_hand")
def test_a_relay_that_died_lets_go_after_its_time(alias: str, queue: str) -> None:
    outbox.enqueue(queue, b"x", using=alias)
    until = timezone.now() + timedelta(seconds=30)
    OutboxJob.objects.using(alias).update(held_by="dead", held_until=until)
    skips = connections[alias].features.has_select_for_update_skip_locked
    assert outbox.relay(alias).sent == (1 if skips else 0)  # there nobody holds by the column

    OutboxJob.objects.using(alias).update(held_until=timezone.now() - timedelta(seconds=1))

    assert outbox.relay(alias).sent == (0 if skips else 1)


@pytest.mark.usefixtures("by_hand")
def test_an_id_that_is_another_job_s_is_minted_again_and_told(
    alias: str, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    receipt = outbox.enqueue(queue, b"mine", using=alias)
    wire_for(keys(queue)).run(enqueue.enqueue(keys(queue), receipt.id, b"another's"))

    assert outbox.relay(alias).sent == 1

    assert len(waiting(queue)) == 2
    errors = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert len(errors) == 1
    assert receipt.id in errors[0].getMessage()


@pytest.mark.usefixtures("by_hand")
def test_a_job_that_the_server_refuses_is_set_aside_and_the_others_go_on(
    alias: str, queue: str, redis_client: redis.Redis
) -> None:
    bad = outbox.enqueue(queue, b"bad", lane=LANE, using=alias)
    good = outbox.enqueue(queue, b"good", using=alias)
    redis_client.set(keys(queue).ring, b"no list")

    done = outbox.relay(alias)

    assert (done.sent, done.refused) == (1, 1)
    assert waiting(queue) == [good.id]
    row = OutboxJob.objects.using(alias).get()
    assert (row.job_id, row.failures) == (bad.id, 1)
    assert row.last_error
    assert outbox.relay(alias) == (0, 0, None)
    past = timezone.now() - timedelta(seconds=1)
    OutboxJob.objects.using(alias).update(retry_at=past)
    redis_client.delete(keys(queue).ring)
    assert outbox.relay(alias).sent == 1


def test_due_times_lanes_ids_and_unique_keys_are_kept(alias: str, queue: str) -> None:
    when = timezone.now().replace(microsecond=0) + timedelta(hours=1)
    job_id = mint.one()
    with transaction.atomic(using=alias):
        outbox.enqueue(queue, b"1", job_id=job_id, using=alias)
        at_time = outbox.enqueue_at(queue, b"2", when, using=alias)
        outbox.enqueue(queue, b"3", unique="k", using=alias)
        outbox.enqueue(queue, b"4", unique="k", using=alias)
        outbox.enqueue(queue, b"5", lane=LANE, using=alias)

    counts = wire_for(keys(queue)).run(read.counts(keys(queue)))
    assert (counts.pending, counts.scheduled, counts.lane_pending) == (2, 1, 1)
    assert job_id in waiting(queue)
    row = wire_for(keys(queue)).run(read.row(keys(queue), at_time.id))
    assert row is not None
    assert row.score == round(when.timestamp() * 1_000)
    assert rows(alias) == 0


def test_what_an_enqueue_refuses_is_refused_before_the_row(alias: str, queue: str) -> None:
    with pytest.raises(InvalidInput):
        outbox.enqueue(queue, "text", using=alias)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        outbox.enqueue_at(queue, b"x", timezone.now().replace(tzinfo=None), using=alias)
    assert rows(alias) == 0


def test_a_task_goes_through_the_outbox_and_its_result_is_read(alias: str, queue: str) -> None:
    with override_settings(TASKS=TASKS):
        task = zoo.add.using(queue_name=queue)
        with transaction.atomic(using=alias):
            result = outbox.enqueue_task(task, [1], {"b": 2}, using=alias)

        from emq_django.testing import run_pending

        run_pending(queue)
        result.refresh()
        assert result.return_value == 3


@pytest.mark.usefixtures("by_hand")
def test_workers_and_the_command_relay(queue: str, transactional_db: None) -> None:
    first = outbox.enqueue(queue, b"x")
    assert chore() > 0
    assert waiting(queue) == [first.id]

    second = outbox.enqueue(queue, b"y")
    out = StringIO()
    call_command("emq_relay", "--once", stdout=out)
    assert out.getvalue() == "sent 1\n"
    assert waiting(queue) == [first.id, second.id]

    outbox.enqueue(queue, b"z")
    with at(AWAY), pytest.raises(CommandError, match="still in the outbox") as left:
        call_command("emq_relay", "--once", stdout=out)
    assert left.value.returncode == 1


@pytest.mark.usefixtures("by_hand")
def test_the_command_says_once_that_the_server_is_away_and_what_to_do(
    queue: str, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox.enqueue(queue, b"x")
    module: Any = sys.modules["emq_django.outbox.relaying"]
    send, looks = module.relay, []

    def counting(using: str | None) -> Any:
        looks.append(using)
        if len(looks) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return send(using)

    monkeypatch.setattr(module, "relay", counting)
    out = StringIO()

    with at(AWAY):
        call_command("emq_relay", "--interval-s=0.1", stdout=out)

    assert len(looks) == 3
    assert out.getvalue().count("\n") == 1, "told once"
    assert out.getvalue().startswith(f"sent 0, the rest waits: the server {AWAY}: no connection")
    assert out.getvalue().endswith(' - start it, or correct EMQ["CONNECTION"]\n')


@pytest.mark.usefixtures("by_hand")
@pytest.mark.parametrize("failure", [OperationalError, InterfaceError])
def test_the_command_says_in_a_line_that_a_database_is_away_and_goes_on(
    queue: str, transactional_db: None, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    outbox.enqueue(queue, b"x")
    module: Any = sys.modules["emq_django.outbox.relaying"]
    send, looks = module.relay, []

    def fails_twice(using: str | None) -> Any:
        looks.append(using)
        if len(looks) <= 2:
            raise failure("no connection\nto server")
        done = send(using)
        os.kill(os.getpid(), signal.SIGTERM)
        return done

    monkeypatch.setattr(module, "relay", fails_twice)
    out, err = StringIO(), StringIO()

    call_command("emq_relay", "--interval-s=0.1", stdout=out, stderr=err)

    assert (len(looks), out.getvalue()) == (3, "sent 1\n")
    assert err.getvalue().count("\n") == 1, "told once"
    assert f"the outbox can't be read: {failure.__name__}: no connection" in err.getvalue()

    looks.clear()
    with pytest.raises(CommandError, match="nobody knows what is left") as left:
        call_command("emq_relay", "--once", stdout=out, stderr=err)
    assert left.value.returncode == 2


@pytest.mark.usefixtures("by_hand")
def test_a_database_that_is_away_keeps_no_other_waiting(
    queue: str, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipt = outbox.enqueue(queue, b"x")
    module: Any = sys.modules["emq_django.outbox.relaying"]
    sends = module._round

    def away(using: str, most: int) -> Any:
        if using == "away":
            raise OperationalError("connection refused")
        return sends(using, most)

    monkeypatch.setattr(module, "_round", away)
    monkeypatch.setattr(module, "databases", lambda: ["away", "default"])

    with pytest.raises(OperationalError, match="refused"):
        outbox.relay()

    assert waiting(queue) == [receipt.id]
    assert rows("default") == 0


def test_a_database_that_can_t_say_whether_it_has_an_outbox_may_have_one(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> list[str]:
        raise OperationalError("connection refused")

    module: Any = sys.modules["emq_django.outbox.relaying"]
    monkeypatch.setattr(module, "_with_table", set())
    with monkeypatch.context() as patch:
        patch.setattr(connections["default"].introspection, "table_names", refused)
        assert databases() == ["default"]
    assert module._with_table == set()


def test_the_command_does_not_start_where_no_database_says_whether_it_has_an_outbox(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gone() -> list[str]:
        raise OperationalError("connection refused")

    monkeypatch.setattr(sys.modules["emq_django.outbox.relaying"], "databases", gone)

    with pytest.raises(CommandError, match="read: OperationalError: connection refused") as away:
        call_command("emq_relay")
    assert away.value.returncode == 2


@pytest.mark.parametrize("name", ["nope", ""])
def test_the_command_names_a_database_without_an_outbox(transactional_db: None, name: str) -> None:
    named = f"--database '{name}': there is no outbox; give .*def"
    with pytest.raises(CommandError, match=named) as refused:
        call_command("emq_relay", "--once", "--database", name)
    assert refused.value.returncode == 2


@pytest.mark.parametrize("interval", ["0", "-1", "nan", "soon"])
def test_the_command_does_not_look_without_a_pause(transactional_db: None, interval: str) -> None:
    with pytest.raises(CommandError, match=f"'{interval}': give seconds, 0.1 or more"):
        call_command("emq_relay", f"--interval-s={interval}")


@pytest.mark.slow
@pytest.mark.usefixtures("by_hand")
def test_a_worker_process_sends_what_was_left_behind(desk: Desk, transactional_db: None) -> None:
    task = zoo.noted.using(queue_name=desk.queue)
    outbox.enqueue_task(task, ["left behind"])

    desk.start()

    desk.noted("ran")
    until(lambda: not rows("default"), "the row is deleted")


def test_without_the_app_it_says_what_to_do(queue: str) -> None:
    apps = [app for app in settings.INSTALLED_APPS if app != "emq_django.outbox"]
    with override_settings(INSTALLED_APPS=apps):
        with pytest.raises(ConfigError, match="INSTALLED_APPS"):
            outbox.enqueue(queue, b"x")
        assert databases() == []
        with pytest.raises(CommandError, match="INSTALLED_APPS") as refused:
            call_command("emq_relay")
        assert refused.value.returncode == 2


def test_migrations_are_up_to_date(transactional_db: None) -> None:
    call_command("makemigrations", "emq_outbox", check=True, dry_run=True, verbosity=0)
