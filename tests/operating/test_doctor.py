"""`emq_doctor` finds what is wrong, and puts right what can be without losing a job."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.test import override_settings
from redis import Redis

from emq_django.conf import keys
from emq_django.errors import ConfigError
from emq_django.operating import doctor, rights
from emq_django.operating.terminal import Terminal
from emq_django.protocol import claim, scripts
from emq_django.protocol import rights as probing
from emq_django.protocol.ids import mint
from tests.meta.test_lua_headers import COMMANDS
from tests.operating.shell import run_here
from tests.queue_state import check_invariants

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.operating.conftest import Shop
    from tests.servers import Server

LANE, OTHER_LANE = "USR0KHTOWnGLuC", "USR0NgWEfAEJfs"


def findings(shop: Shop, *arguments: str) -> dict[str, dict[str, Any]]:
    """Return what is said of the queue's data, by its number and kind."""
    outcome = shop.run("emq_doctor", shop.name, "--json", *arguments)
    return {one["text"].split(": ")[1]: one for one in json.loads(outcome.out)
            if one["area"] == "data"}  # fmt: skip


def damage(shop: Shop) -> None:
    """Leave what a server that lost half its data, and other speakers, leave."""
    pipe = shop.redis.pipeline(transaction=False)
    for job_id in shop.add_many(300):
        pipe.zrem(shop.keys.pending, job_id)
    for job_id in mint.many(40):
        pipe.zadd(shop.keys.dead, {job_id: 0})
    for job_id in mint.many(7):
        pipe.zadd(shop.keys.lane(OTHER_LANE), {job_id: 0})
    for job_id in mint.many(5):
        pipe.hset(shop.keys.row(job_id), "state", "pending")
    pipe.execute()
    shop.add(lane=LANE)
    shop.redis.delete(shop.keys.ring)


def test_a_sound_queue_is_called_sound(shop: Shop) -> None:
    shop.add_many(30)
    shop.add(lane=LANE)
    shop.call(claim.claim(shop.keys, 30_000))

    assert findings(shop) == {}


def test_what_is_wrong_is_counted_and_nothing_is_written(shop: Shop) -> None:
    shop.add_many(30)
    damage(shop)
    before = {key: shop.redis.dump(key) for key in shop.left()}

    found = findings(shop)

    numbers = sorted(int(text.split()[0]) for text in found)
    assert numbers == [2, 5, 47, 300]  # two lanes are off the ring, one has ghosts only
    assert {key: shop.redis.dump(key) for key in shop.left()} == before
    assert shop.run("emq_doctor", shop.name).code == 1


def test_fix_puts_everything_right_and_loses_no_job(shop: Shop) -> None:
    kept = {*shop.add_many(30)}
    damage(shop)

    outcome = shop.run("emq_doctor", shop.name, "--fix")

    assert outcome.code == 0, outcome.text
    assert "300 rows in no set were put back" in outcome.out
    assert "47 ids without a row were removed" in outcome.out
    check_invariants(shop.redis, shop.keys)
    counts = shop.counts()
    assert (counts.pending, counts.lane_pending) == (330, 1)
    assert kept <= {one.decode() for one in shop.redis.zrange(shop.keys.pending, 0, -1)}
    assert findings(shop) == {}


def test_one_of_a_kind_is_not_told_as_many(shop: Shop) -> None:
    shop.add(lane=LANE)
    shop.redis.delete(shop.keys.ring)
    shop.redis.zrem(shop.keys.pending, shop.add())
    shop.redis.zadd(shop.keys.dead, {"JOB00000000001": 0})

    found = findings(shop)
    mended = findings(shop, "--fix")

    assert set(found) == {
        "1 id without a row",
        "1 row in no set, which no worker finds",
        f"1 lane with work ({LANE}) is not on the ring",
    }
    assert set(mended) == {
        "1 id without a row was removed",
        "1 row in no set was put back",
        f"1 lane with work ({LANE}) was put on the ring",
    }


def test_a_fix_that_was_stopped_goes_on_where_it_is_called_again(shop: Shop) -> None:
    shop.add_many(1_000)
    shop.redis.delete(shop.keys.pending)

    class Enough(Exception):
        pass

    def stop(seen: doctor.Examined) -> None:
        if seen.looked:
            raise Enough

    with pytest.raises(Enough):
        doctor.examine(shop.name, fix=True, show=stop)
    half = shop.redis.zcard(shop.keys.pending)
    assert 0 < half < 1_000

    assert shop.run("emq_doctor", shop.name, "--fix").code == 0
    assert shop.redis.zcard(shop.keys.pending) == 1_000
    check_invariants(shop.redis, shop.keys)


def test_ctrl_c_stops_between_two_steps(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.add_many(100)
    monkeypatch.setattr(
        "emq_django.operating.progress.Progress.show",
        lambda *_: signal.raise_signal(signal.SIGINT),
    )

    outcome = shop.run("emq_doctor", shop.name, "--fix")

    assert outcome.code == 130
    assert "the same command does the rest" in outcome.err


def test_a_key_of_another_type_is_named_not_touched(shop: Shop) -> None:
    shop.redis.set(shop.keys.dead, "a string")

    outcome = shop.run("emq_doctor", shop.name, "--fix")

    assert outcome.code == 1
    assert "WRONGTYPE" in outcome.out
    assert shop.redis.get(shop.keys.dead) == b"a string"


def test_why_a_server_can_not_be_asked_is_told_once() -> None:
    with override_settings(EMQ={"CONNECTION": "redis://127.0.0.1:1/0", "QUEUES": {"mail": {}}}):
        outcome = run_here("emq_doctor")

    assert outcome.code == 2
    assert outcome.text.count("no connection") == 1
    assert outcome.err.startswith("CommandError: the server redis://127.0.0.1:1/0: no connection")
    assert "emq.W004: the server redis://127.0.0.1:1/0 could not be asked\n" in outcome.out
    assert "what the server's user may run is not known\n" in outcome.out


def test_settings_that_can_not_work_are_told(shop: Shop) -> None:
    with override_settings(EMQ={"CONNECTION": "queue", "QUEUES": {"mail": {"LEASE_MS": 0}}}):
        outcome = run_here("emq_doctor")

    assert outcome.code == 2
    assert "LEASE_MS" in outcome.text
    assert "Traceback" not in outcome.text


def test_every_command_of_every_script_is_tried() -> None:
    text = scripts.load("rights").text
    optional = {"PUBSUB"}  # of the watcher; its own first use tells

    assert {name for name in COMMANDS - optional if f"'{name}'" not in text} == set()


@pytest.fixture
def restricted(fresh_server: Callable[..., Server]) -> Callable[[str], str]:
    """Let a user lack a right; returns the address with which this user connects."""
    server = fresh_server()

    def restrict(*rules: str) -> str:
        with server.client() as client:
            client.execute_command("ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "&*", "+@all",
                                   *rules)  # fmt: skip
        return f"redis://u:p@127.0.0.1:{server.port}/0"

    return restrict


@pytest.mark.parametrize("command", ["zpopmin", "time", "hset", "zadd", "del", "set"])
def test_c117_a_missing_right_is_named(restricted: Any, command: str) -> None:
    url = restricted(f"-{command}")
    with override_settings(EMQ={"CONNECTION": url, "QUEUES": {"mail": {}}}):
        outcome = run_here("emq_doctor")

        assert outcome.code == 1
        assert f"may not run {command.upper()}" in outcome.out
        with pytest.raises(ConfigError, match=command.upper()):
            rights.check_rights([keys("mail")])


@pytest.mark.parametrize("rule", ["-evalsha", "-script", "resetkeys"])
def test_c117_without_the_right_to_run_scripts_health_is_red(restricted: Any, rule: str) -> None:
    url = restricted(rule)
    with override_settings(EMQ={"CONNECTION": url, "QUEUES": {"mail": {}}}):
        outcome = run_here("emq_health")

        assert outcome.code == 2
        assert "docs/reference/wire.md" in outcome.out
        assert "Traceback" not in outcome.text


@pytest.mark.parametrize("login", ["u:wrong@", "nobody:p@", ""], ids=["password", "user", "none"])
def test_a_refused_login_is_not_taken_for_missing_rights(restricted: Any, login: str) -> None:
    url = restricted()
    with Redis.from_url(url) as client:
        client.execute_command("ACL", "SETUSER", "default", "resetpass", ">secret")
    with override_settings(EMQ={"CONNECTION": url.replace("u:p@", login), "QUEUES": {"mail": {}}}):
        looked, probe = run_here("emq_doctor"), run_here("emq_health")
        with pytest.raises(ConfigError) as refused:  # what a worker ends with
            rights.check_rights([keys("mail")])

    assert (looked.code, probe.code) == (1, 2)
    for text in (looked.text, probe.text, str(refused.value)):
        assert "correct the user name or password in EMQ['CONNECTION']" in text
        assert "wire.md" not in text
        assert "Traceback" not in text


def test_c117_rights_that_are_only_wished_for_are_a_remark(restricted: Any) -> None:
    url = restricted("-publish", "-info", "-config")
    with override_settings(EMQ={"CONNECTION": url, "QUEUES": {"mail": {}}}):
        outcome = run_here("emq_doctor")

        assert outcome.code == 0, outcome.text
        assert "may not run PUBLISH" in outcome.out
        assert "emq.W004" in outcome.out
        assert run_here("emq_health").code == 0


@pytest.mark.parametrize("away", [0, 1])
def test_c117_each_server_of_a_ring_is_asked_for_its_rights(
    restricted: Any, fresh_server: Callable[..., Server], away: int
) -> None:
    """One that is away keeps nobody from hearing of the other, wherever the two stand."""
    gone = fresh_server()
    urls = [gone.url, restricted("-zadd")]
    shards = {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": urls if away == 0 else urls[::-1],
        "OPTIONS": {"CLIENT_CLASS": "django_redis.client.ShardClient"},
    }
    gone.kill()
    with override_settings(
        CACHES={**settings.CACHES, "ring": shards}, EMQ={"CONNECTION": "ring", "QUEUES": {}}
    ):
        queues = [keys(f"q{number}") for number in range(20)]  # some on each server

        with pytest.raises(ConfigError, match="ZADD"):
            rights.check_rights(queues)
        found = sorted(one.text for one in doctor.rights_on(queues))

    assert len(found) == 2
    assert "the server's user may not run ZADD" in found
    assert any("is not known" in text for text in found)


def test_a_server_that_announces_nothing_is_a_remark(restricted: Any) -> None:
    """Workers look again and again there; the other way of waiting is nothing to mention."""
    with override_settings(EMQ={"CONNECTION": restricted("-client"), "QUEUES": {"mail": {}}}):
        deaf = run_here("emq_doctor")
    with override_settings(EMQ={"CONNECTION": restricted("+client"), "QUEUES": {"mail": {}}}):
        hears = run_here("emq_doctor")

    assert (deaf.code, hears.code) == (0, 0), deaf.text
    assert "can't tell workers of new jobs" in deaf.out
    assert "CLIENT TRACKING" not in hears.out


def test_jobs_that_nobody_serves_are_a_remark_with_its_remedy(shop: Shop) -> None:
    shop.add_many(3)

    outcome = shop.run("emq_doctor", shop.name, "--json")

    (remark,) = [one for one in json.loads(outcome.out) if one["area"] == "work"]
    assert outcome.code == 0
    assert remark["serious"] is False
    assert "3 pending" in remark["text"]
    assert "0 workers: start one (manage.py emq_worker)" in remark["text"]


def test_trying_leaves_nothing(shop: Shop) -> None:
    assert shop.call(probing.refused(shop.keys)) == []

    assert shop.left() == []


def test_lines_for_a_person() -> None:
    found = [
        doctor.Finding(area="data", text="a\x1b[2J", hint="do"),
        doctor.Finding(area="data", text="b", mended=True),
    ]

    lines = doctor.lines_of(found, Terminal())

    assert lines == ["wrong   a\\x1b[2J", "        do", "mended  b"]
    assert doctor.lines_of([], Terminal()) == ["nothing is wrong"]
