"""What stays of an action: entries of Django's admin log, a log line and the signal.

One entry for each job it was done to; one on the queue for an action on the queue, its lanes or all
that match. What it says is in the language of the site, so that a log reads alike whoever acted.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import Error as DatabaseFailure
from django.db import models, transaction
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import override

from emq_django.admin.acting import Outcome
from emq_django.admin.links import job_key
from emq_django.admin.redact import mask_secrets
from emq_django.admin.registry import Scope, Verb
from emq_django.conf import conf
from emq_django.models import Job, Queue
from emq_django.signals import queue_action

logger = logging.getLogger("emq_django.admin")


def record(request: HttpRequest, verb: Verb, queue: str, outcome: Outcome, extra: str = "") -> None:
    """Write down what an action did. A failure of the log is told; nothing is rolled back."""
    if outcome.done:
        with override(settings.LANGUAGE_CODE):
            _write(request, verb, queue, outcome, extra)
    tell(request, verb, queue, outcome.done, len(outcome.done), outcome.skipped, outcome.failed)


def _write(request: HttpRequest, verb: Verb, queue: str, outcome: Outcome, extra: str) -> None:
    flag, past = (DELETION if verb.deletes else CHANGE), str(verb.past)
    if verb.scope not in {Scope.JOBS, Scope.PAYLOAD}:
        add(request, [Queue(name=conf().base_of(queue))], flag, f"{past} {extra}".strip())
        return
    if not outcome.copies:
        text = f"{past} {extra}".strip()
        add(request, [_job(queue, one) for one in outcome.done], flag, text)
        return
    for original, copy in outcome.copies.items():
        told = _("The copy is %s.") % copy
        add(request, [_job(queue, original)], flag, f"{past} {told}")
        add(request, [_job(queue, copy)], flag, _("Enqueued as a copy of %s.") % original)


def _job(queue: str, job_id: str) -> Job:
    # A foreign id may be bytes that are no text, which a database would not take.
    return Job(key=job_key(queue, job_id.encode("utf-8", "backslashreplace").decode()))


def add(
    request: HttpRequest, objects: Sequence[models.Model], flag: int, message: str
) -> list[LogEntry]:
    """Add an entry for each object; none where the database refuses, which the user is told."""
    try:
        with transaction.atomic():
            found = LogEntry.objects.log_actions(_user_id(request), objects, flag, message)
    except (DatabaseFailure, ValueError):  # ValueError: NUL in a foreign id
        logger.exception("the admin log could not be written")
        messages.error(request, _("The admin's log could not be written."))
        return []
    return list(found)


def _user_id(request: HttpRequest) -> int | str | UUID:
    user_id: Any = request.user.pk  # nobody gets here without logging in
    return user_id  # type: ignore[no-any-return]


def write(request: HttpRequest, objects: Sequence[models.Model], flag: int, what: str) -> bool:
    """Write down something that is no action, in the language of the site."""
    with override(settings.LANGUAGE_CODE):
        text = {"downloaded": _("Downloaded the raw payload.")}[what]
    return bool(add(request, objects, flag, text))


def tell(
    request: HttpRequest,
    verb: Verb,
    queue: str,
    targets: Sequence[str],
    done: int,
    skipped: int,
    failed: int,
) -> None:
    """Write a log line and send the signal."""
    facts = {"verb": verb.name, "queue": queue, "done": done, "skipped": skipped, "failed": failed}
    logger.info(
        "%s on queue %s by user %s: %d done, %d skipped, %d failed",
        verb.name, queue, request.user.pk, done, skipped, failed, extra=facts,
    )  # fmt: skip
    answers = queue_action.send_robust(
        sender=Queue, request=request, targets=list(targets), query=request.GET.urlencode(), **facts
    )
    for receiver, answer in answers:
        if isinstance(answer, Exception):
            logger.error("a receiver of queue_action failed: %r", receiver, exc_info=answer)


def safe(text: str) -> str:
    """Return text of an operator, a search for one, fit for the log: secrets masked."""
    return mask_secrets(text)


def last_pause(queue: str) -> LogEntry | None:
    """Return who paused a queue last and when, as far as this admin did it."""
    content_type = ContentType.objects.get_for_model(Queue)
    with override(settings.LANGUAGE_CODE):
        past = _("Paused the queue.")
    return (
        LogEntry.objects.filter(content_type=content_type, object_id=queue, change_message=past)
        .select_related("user")
        .order_by("-action_time")
        .first()
    )
