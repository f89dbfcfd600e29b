"""The raw payload of one job as a file: its own permission, its own entry in the log.

Asked for by POST, since it leaves a trace. Nothing is masked in it: that is what it is for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from django.contrib import messages
from django.contrib.admin.models import CHANGE
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _

from emq_django.admin import audit, words
from emq_django.admin.base import SeeOther
from emq_django.admin.links import job_key
from emq_django.connections import admin_wire_for
from emq_django.errors import EmqError
from emq_django.models import Job
from emq_django.protocol import browse
from emq_django.reading import ask_each

if TYPE_CHECKING:
    from emq_django.admin.base import PagesAdmin
    from emq_django.protocol.keyspace import Queue

LARGEST_BYTES: Final = 16 * 1024 * 1024


def send(page: PagesAdmin, request: HttpRequest, queue: Queue, job_id: str) -> HttpResponseBase:
    """Answer with the payload, or lead back and say why not."""
    back = page.links().job(queue.name, job_id) or "../change/"
    try:
        (blob,) = ask_each(admin_wire_for(queue), [browse.payload(queue, job_id, LARGEST_BYTES)])
    except EmqError as exc:
        blob = exc
    if isinstance(blob, Exception):
        problem = words.problem(blob)
        messages.error(request, f"{problem.headline} {problem.detail}")
        return SeeOther(back)
    if blob is None or blob.value is None:
        text = _("The payload is too large to download here: %s.") % words.size(
            blob.size if blob else 0
        )
        messages.error(request, text if blob else _("This job has no payload any more."))
        return SeeOther(back)
    # Without its entry in the log nothing is handed out.
    if not audit.write(request, [Job(key=job_key(queue.name, job_id))], CHANGE, "downloaded"):
        return SeeOther(back)
    name = re.sub(r"[^\w.\-]", "_", f"{queue.name}-{job_id}", flags=re.ASCII)[:120]
    return HttpResponse(
        blob.value,
        content_type="application/octet-stream",
        headers={
            "Content-Disposition": f'attachment; filename="{name}.bin"',
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox",
        },
    )
