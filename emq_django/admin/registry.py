"""The one list of what an operator can open and do, and which permission each asks for.

A page is a ``Route`` of a model's admin, an action a ``Verb``. Views and templates read this list,
and the table in the reference and the tests are made from it: what is not in it can't be done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from django.utils.translation import gettext_lazy as _

from emq_django.admin.asking import Tab

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One page: its URL, the method that makes it, and the codename that opens it."""

    pattern: str
    name: str
    method: str
    codename: str
    methods: tuple[str, ...] = ("GET", "HEAD")  # a POST is an action with a codename of its own


class Scope(Enum):
    """What an action is done to."""

    JOBS = "jobs"  # the selected ones
    MATCHING = "matching"  # all that the filter lets through
    QUEUE = "queue"
    LANES = "lanes"  # the selected ones
    SCHEDULE = "schedule"  # one periodic task
    PAYLOAD = "payload"  # of one job, on a page of its own


class Confirm(Enum):
    """What stands between the button and the action."""

    NO = "no"
    YES = "yes"
    TYPED = "typed"  # the queue's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One action. ``past`` is what the audit log says of it."""

    name: str
    codename: str
    scope: Scope
    label: Text
    past: Text
    tabs: frozenset[Tab] = field(default_factory=frozenset)
    confirm: Confirm = Confirm.NO
    explain: Text | str = ""  # what happens next, and what can't be undone
    deletes: bool = False
    once: bool = False  # a second send would do it again: its form carries a token of one use
    number: str = ""  # the field of the form that goes with it


_LISTS: Final = frozenset({Tab.PENDING, Tab.ACTIVE, Tab.SCHEDULE, Tab.DEAD})

_ALL: Final = (
    Verb(
        name="retry",
        codename="retry_job",
        scope=Scope.JOBS,
        tabs=frozenset({Tab.DEAD}),
        label=_("Retry selected"),
        past=_("Retried."),
    ),
    Verb(
        name="run",
        codename="run_job",
        scope=Scope.JOBS,
        tabs=frozenset({Tab.SCHEDULE}),
        label=_("Run selected now"),
        past=_("Set to run now."),
    ),
    Verb(
        name="expire",
        codename="release_job",
        scope=Scope.JOBS,
        tabs=frozenset({Tab.ACTIVE}),
        confirm=Confirm.YES,
        label=_("End lease of selected"),
        past=_("Ended its lease."),
        explain=_(
            "The leases end now and the jobs go back to their queue at once, where another worker"
            " may start them. A worker that still runs one of them is not stopped: it may finish"
            " the job, and what it does outside the queue can't be undone. It counts as a lost"
            " lease."
        ),
    ),
    Verb(
        name="cancel",
        codename="cancel_job",
        scope=Scope.JOBS,
        tabs=frozenset({Tab.ACTIVE}),
        confirm=Confirm.YES,
        label=_("Cancel selected"),
        past=_("Cancelled."),
        explain=_(
            "The workers that run them are asked to end them: a coroutine is cancelled within about"
            " a second, other code has to look for the request and may go on. What gives in is"
            " dead, and none of them is run again. A job that waits again by then is removed with"
            " its payload. This can't be undone."
        ),
    ),
    Verb(
        name="copy",
        codename="add_job",
        scope=Scope.JOBS,
        tabs=frozenset({Tab.DEAD, Tab.FINISHED}),
        confirm=Confirm.YES,
        label=_("Enqueue a copy of selected"),
        past=_("Enqueued again as a copy."),
        explain=_(
            "Each copy is a new job with the same payload and lane and an id of its own; the"
            " original stays as it is. The work may be done a second time."
        ),
    ),
    Verb(
        name="delete",
        codename="delete_job",
        scope=Scope.JOBS,
        tabs=frozenset({Tab.PENDING, Tab.SCHEDULE, Tab.DEAD}),
        confirm=Confirm.YES,
        deletes=True,
        label=_("Delete selected"),
        past=_("Deleted."),
        explain=_(
            "The jobs are removed with their payload, error and log. This can't be undone. A job"
            " that a worker holds by then is left alone."
        ),
    ),
    Verb(
        name="edit",
        codename="change_job",
        scope=Scope.PAYLOAD,
        tabs=frozenset({Tab.PENDING, Tab.SCHEDULE, Tab.DEAD}),
        confirm=Confirm.YES,
        label=_("Change payload"),
        past=_("Changed the payload."),
        explain=_(
            "The job's next run gets the new payload; the old one is not kept. It is changed only"
            " if it is still the one that you saw and no worker holds the job."
        ),
    ),
    Verb(
        name="drop_ghosts",
        codename="delete_job",
        scope=Scope.JOBS,
        tabs=_LISTS,
        confirm=Confirm.YES,
        label=_("Remove ids without a row"),
        past=_("Removed the id: it had no row."),
        explain=_(
            "Of the selected ids, those behind which no row stands are taken off the lists. A job"
            " that has a row is left alone."
        ),
    ),
    Verb(
        name="retry_all",
        codename="retry_job",
        scope=Scope.MATCHING,
        once=True,
        tabs=frozenset({Tab.DEAD}),
        confirm=Confirm.YES,
        label=_("Retry all matching"),
        past=_("Retried all matching jobs"),
        explain=_(
            "They go back to their queue or lane in steps, each one at most once; their tries start"
            " at zero. Workers may start them at once."
        ),
    ),
    Verb(
        name="delete_all",
        codename="delete_job",
        scope=Scope.MATCHING,
        once=True,
        tabs=frozenset({Tab.SCHEDULE, Tab.DEAD}),
        confirm=Confirm.TYPED,
        deletes=True,
        label=_("Delete all matching"),
        past=_("Deleted all matching jobs"),
        explain=_("The jobs are removed with their payload, error and log. This can't be undone."),
    ),
    Verb(
        name="pause",
        codename="pause_queue",
        scope=Scope.QUEUE,
        confirm=Confirm.YES,
        label=_("Pause queue"),
        past=_("Paused the queue."),
        explain=_(
            "Workers take no more jobs of this queue until it is resumed; what runs goes on."
        ),
    ),
    Verb(
        name="resume",
        codename="pause_queue",
        scope=Scope.QUEUE,
        label=_("Resume queue"),
        past=_("Resumed the queue."),
    ),
    Verb(
        name="drain",
        codename="drain_queue",
        scope=Scope.QUEUE,
        once=True,
        confirm=Confirm.TYPED,
        deletes=True,
        label=_("Drain pending"),
        past=_("Drained pending jobs"),
        explain=_(
            "All jobs that wait now, in the queue and in its lanes, are removed with their payload."
            " This can't be undone. Active, scheduled and dead jobs stay."
        ),
    ),
    Verb(
        name="pause_lane",
        codename="change_lane_queue",
        scope=Scope.LANES,
        tabs=frozenset({Tab.LANES}),
        confirm=Confirm.YES,
        label=_("Pause selected"),
        past=_("Paused lanes"),
        explain=_(
            "Workers take no more jobs of these lanes until they are resumed; what runs goes on."
        ),
    ),
    Verb(
        name="resume_lane",
        codename="change_lane_queue",
        scope=Scope.LANES,
        tabs=frozenset({Tab.LANES}),
        label=_("Resume selected"),
        past=_("Resumed lanes"),
    ),
    Verb(
        name="limit_lane",
        codename="change_lane_queue",
        scope=Scope.LANES,
        tabs=frozenset({Tab.LANES}),
        number="limit",
        label=_("Set limit"),
        past=_("Set the limit of lanes"),
    ),
    Verb(
        name="weigh_lane",
        codename="change_lane_queue",
        scope=Scope.LANES,
        tabs=frozenset({Tab.LANES}),
        number="weight",
        label=_("Set weight"),
        past=_("Set the weight of lanes"),
    ),
    Verb(
        name="pause_schedule",
        codename="pause_queue",
        scope=Scope.SCHEDULE,
        label=_("Pause"),
        past=_("Paused the periodic task"),
    ),
    Verb(
        name="resume_schedule",
        codename="pause_queue",
        scope=Scope.SCHEDULE,
        label=_("Resume"),
        past=_("Resumed the periodic task"),
    ),
    Verb(
        name="fire_schedule",
        codename="add_job",
        scope=Scope.SCHEDULE,
        once=True,
        label=_("Fire now"),
        past=_("Fired the periodic task"),
    ),
)
VERBS: Final = {verb.name: verb for verb in _ALL}
