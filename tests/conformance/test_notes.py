"""What a job leaves on its row: progress and log lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emq_django import errors
from emq_django.protocol import notes, operate, settle
from emq_django.protocol.notes import Log
from tests.acts import LANE, kill, put, put_off, start
from tests.queue_state import read_state

if TYPE_CHECKING:
    from emq_django.protocol.keyspace import Queue
    from tests.speakers import Speaker

ABSENT = "JOB00000000001"


def test_progress_stands_on_the_row_whatever_state_the_job_is_in(
    speaker: Speaker, client: Any, q: Queue
) -> None:
    job_ids = [
        start(speaker, q).id, kill(speaker, q).id, put(speaker, q, lane=LANE), put_off(speaker, q),
    ]  # fmt: skip

    for job_id in job_ids:
        assert speaker.run(notes.progress(q, job_id, "40 %")) is True
        assert read_state(client, q).row(job_id)[b"progress"] == b"40 %"


def test_notes_on_a_missing_row_write_nothing(speaker: Speaker, client: Any, q: Queue) -> None:
    assert speaker.run(notes.progress(q, ABSENT, "half")) is False
    assert speaker.run(notes.add_log(q, ABSENT, "line")) is None
    assert speaker.run(notes.logs(q, ABSENT)) == Log(0, [])

    assert read_state(client, q).keys == {}


def test_notes_on_a_skeleton_row_write_nothing(
    speaker: Speaker, client: Any, bare_q: Queue
) -> None:
    client.hset(bare_q.row(ABSENT), "state", "pending")
    before = read_state(client, bare_q)

    assert speaker.run(notes.progress(bare_q, ABSENT, "half")) is False
    assert speaker.run(notes.add_log(bare_q, ABSENT, "line")) is None

    assert read_state(client, bare_q) == before


def test_a_log_keeps_its_last_lines_in_order(speaker: Speaker, q: Queue) -> None:
    job_id = put(speaker, q)

    totals = [speaker.run(notes.add_log(q, job_id, f"line {i}", keep=3)) for i in range(5)]

    assert totals == [1, 2, 3, 3, 3]
    assert speaker.run(notes.logs(q, job_id)) == Log(3, ["line 2", "line 3", "line 4"])
    assert speaker.run(notes.logs(q, job_id, limit=2)) == Log(3, ["line 3", "line 4"])


def test_any_text_can_be_a_line(speaker: Speaker, client: Any, q: Queue) -> None:
    job_id = put(speaker, q)

    for line in ("", "\0", "päivä 日\n", "\ud800"):
        speaker.run(notes.add_log(q, job_id, line))

    assert speaker.run(notes.logs(q, job_id)).lines == ["", "\0", "päivä 日\n", "\\ud800"]


def test_lines_of_another_speaker_may_be_any_bytes(speaker: Speaker, client: Any, q: Queue) -> None:
    job_id = put(speaker, q)
    client.rpush(q.row(job_id) + b":logs", b"\xff\xfe")

    assert speaker.run(notes.logs(q, job_id)).lines == ["\ufffd\ufffd"]


def test_a_log_ends_with_its_job(speaker: Speaker, client: Any, q: Queue) -> None:
    finished, removed = start(speaker, q), put(speaker, q)
    for job_id in (finished.id, removed):
        speaker.run(notes.add_log(q, job_id, "line"))

    speaker.run(settle.complete(q, finished))
    speaker.run(operate.remove(q, [removed]))

    assert set(read_state(client, q).keys) == {b"metrics:completed"}


@pytest.mark.parametrize("bad", [0, -1, 1_001, True, 1.5, "5"])
def test_the_length_of_a_log_is_bounded(q: Queue, bad: Any) -> None:
    with pytest.raises(errors.InvalidInput, match="from 1 to 1000"):
        notes.add_log(q, ABSENT, "line", keep=bad)
    with pytest.raises(errors.InvalidInput, match="from 1 to 1000"):
        notes.logs(q, ABSENT, limit=bad)
