from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import Count, Q, Sum
from django.db.models.functions import Coalesce
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from emq_django import enqueue_many, lane_for
from emq_django.errors import WireError
from emq_django.task_backend.compat import (  # those of django.tasks, where Django has it
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
)
from example_project.airports.forms import UploadForm
from example_project.airports.models import Airport, Country, Import, RowError
from example_project.airports.payloads import ChunkPayload
from example_project.airports.rows import visible
from example_project.airports.tasks import count_airports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.contrib.auth.models import User
    from django.db.models import QuerySet
    from django.http import HttpRequest

    from example_project.airports.csv_file import Chunk

    class Request(HttpRequest):
        user: User  # login_required lets nobody else in


logger = logging.getLogger(__name__)

PER_PAGE = 50


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def imports(request: Request) -> HttpResponse:
    """List the user's imports; a POST uploads a file and starts one."""
    posted = request.method == "POST"
    form = UploadForm(request.POST, request.FILES) if posted else UploadForm()
    status = 422 if posted else 200
    if posted and form.is_valid():
        try:
            started = start_import(request.user, form.cleaned_data["file"].name, form.chunks)
        except WireError:
            logger.exception("The queue took no jobs")
            form.add_error("file", "The queue cannot be reached, nothing was imported: try again.")
            status = 503
        else:
            messages.success(request, f"Import started: {started.chunk_count} jobs are queued.")
            return redirect(started)
    page = Paginator(with_progress(own_imports(request)), PER_PAGE).get_page(
        request.GET.get("page")
    )
    return render(request, "airports/imports.html", {"form": form, "page": page}, status=status)


def start_import(user: User, file_name: str, chunks: Sequence[Chunk]) -> Import:
    """Store an import and, once it is committed, enqueue one job per chunk in the user's lane."""
    started = Import(
        user=user,
        file_name=visible(file_name, 250),
        row_count=sum(len(chunk.rows) for chunk in chunks),
        chunk_count=len(chunks),
    )

    def enqueue_chunks() -> None:
        payloads = [
            ChunkPayload(import_id=started.pk, number=number, chunk=chunk).to_bytes()
            for number, chunk in enumerate(chunks)
        ]
        enqueue_many("imports", payloads, lane=lane_for(user))

    try:
        with transaction.atomic():
            started.save()
            # After the commit: no job may run before its import can be seen.
            transaction.on_commit(enqueue_chunks)
    except WireError:
        started.delete()
        raise
    return started


@login_required
@require_GET
@never_cache
def import_page(request: Request, pk: int) -> HttpResponse:
    """Show how far an import is, and the rows that were refused."""
    imported = get_object_or_404(with_progress(own_imports(request)), pk=pk)
    errors = RowError.objects.filter(chunk__imported=imported)
    page = Paginator(errors, PER_PAGE).get_page(request.GET.get("page"))
    context = {"imported": imported, "progress": progress_of(imported), "page": page}
    return render(request, "airports/import.html", context)


@login_required
@require_GET
@never_cache
def import_progress(request: Request, pk: int) -> JsonResponse:
    """Answer the same figures as JSON, for the page's script and for other programs."""
    imported = get_object_or_404(with_progress(own_imports(request)), pk=pk)
    return JsonResponse(progress_of(imported))


@login_required
@require_GET
def airports(request: Request) -> HttpResponse:
    """List the airports, or those whose code, name or city holds what was asked for."""
    wanted = request.GET.get("q", "").strip()[:80].replace("\0", "")
    found = Airport.objects.all()
    if wanted:
        found = found.filter(
            Q(code__istartswith=wanted)
            | Q(iata__iexact=wanted)
            | Q(name__icontains=wanted)
            | Q(city__icontains=wanted)
        )
    page = Paginator(found, PER_PAGE).get_page(request.GET.get("page"))
    return render(request, "airports/airports.html", {"page": page, "wanted": wanted})


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def countries(request: Request) -> HttpResponse:
    """Show what the last count found; a POST asks for another one."""
    if request.method == "POST":
        try:
            result = count_airports.enqueue()
        except WireError:
            logger.exception("The queue took no task")
            messages.error(request, "The queue cannot be reached, nothing is counted: try again.")
            return redirect("countries")
        return redirect(f"{reverse('countries')}?count={quote(result.id)}")
    page = Paginator(Country.objects.all(), PER_PAGE).get_page(request.GET.get("page"))
    context = {"page": page, "count": request.GET.get("count")}
    return render(request, "airports/countries.html", context)


@login_required
@require_GET
@never_cache
def count(request: Request, result_id: str) -> JsonResponse:
    """Answer how far a count is, by the id of its result."""
    try:
        result = count_airports.get_result(result_id)
    except (TaskResultDoesNotExist, TaskResultMismatch) as exc:
        raise Http404 from exc
    ended_well = result.status == TaskResultStatus.SUCCESSFUL
    return JsonResponse(
        {
            "status": result.status,
            "finished": result.is_finished,
            "countries": result.return_value if ended_well else None,
        }
    )


def own_imports(request: Request) -> QuerySet[Import]:
    return Import.objects.filter(user=request.user)


def with_progress(found: QuerySet[Import]) -> QuerySet[Any]:
    return found.annotate(
        done=Count("chunks"),
        stored=Coalesce(Sum("chunks__stored"), 0),
        refused=Coalesce(Sum("chunks__refused"), 0),
    ).order_by("-pk")


def progress_of(imported: Any) -> dict[str, int | bool]:
    """Return the figures of an import that `with_progress` found."""
    return {
        "done": imported.done,
        "total": imported.chunk_count,
        "percent": 100 * imported.done // imported.chunk_count,
        "rows": imported.row_count,
        "stored": imported.stored,
        "refused": imported.refused,
        "finished": imported.done == imported.chunk_count,
    }
