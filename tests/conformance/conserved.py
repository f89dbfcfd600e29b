"""What holds when a script went on in spite of what it met: no job is lost, no row is spoiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emq_django.protocol.records import Swept

if TYPE_CHECKING:
    from tests.queue_state import QueueState

# Scripts that end jobs when asked to, and what else a script changes on a row that it leaves.
ENDING = {"cancel", "complete", "complete_many", "remove", "drain", "obliterate", "trim_dead"}
DROPPED_FIELDS = {"reprocess": {b"failures", b"stalled"}}


def check_conserved(name: str, before: QueueState, after: QueueState, outcome: Any) -> None:
    """Assert that each job that was in a set is in one, or was ended by a script that ends jobs."""
    for job_id, places in before.places.items():
        now = after.places.get(job_id, [])
        old_row, new_row = before.rows.get(job_id, {}), after.rows.get(job_id, {})
        if not now:
            ghost = old_row is not None and b"payload" not in old_row
            assert name in ENDING or ghost, f"{job_id!r} was in {places} and is in no set"
            assert new_row == {}, f"{job_id!r} is in no set and has a row"
            continue
        assert len(now) == 1 or set(now) <= set(places), (
            f"{job_id!r} was in {places} and is in {now}"
        )
        if name in {"cancel", "remove"} and not new_row and now[0].startswith(b"g:"):
            continue  # the row did not name its lane: the id stays there as a ghost
        if old_row is None or new_row is None:
            assert old_row is new_row
            continue
        if name != "update_payload":
            assert new_row.get(b"payload") == old_row.get(b"payload"), job_id
        kept = old_row.keys() - {b"worker", b"last_error"} - DROPPED_FIELDS.get(name, set())
        assert kept <= new_row.keys(), f"{job_id!r} lost {kept - new_row.keys()}"
        token, raised = old_row.get(b"attempts", b"0"), new_row.get(b"attempts", b"0")
        assert token == raised or int(raised) == int(token) + 1, (job_id, token, raised)
    for job_id in after.rows.keys() - before.rows.keys():
        assert len(after.places.get(job_id, [])) == 1, f"{job_id!r} is new and in no set"
    if isinstance(outcome, Swept):
        assert outcome.moved + outcome.dead + outcome.dropped == outcome.seen
