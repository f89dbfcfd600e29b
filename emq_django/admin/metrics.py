"""The page with a queue's figures over time, as its workers counted them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from emq_django.admin import bands, charts, render, words
from emq_django.admin.base import keys_or_404
from emq_django.admin.charts import Bin
from emq_django.admin.filters import Choice
from emq_django.admin.words import Problem
from emq_django.conf import conf, keys
from emq_django.errors import EmqError
from emq_django.protocol import metrics
from emq_django.reading import ask_where

if TYPE_CHECKING:
    from emq_django.admin.base import PagesAdmin
    from emq_django.protocol.calls import Call
    from emq_django.protocol.keyspace import Queue

_LABELS = {
    "1h": gettext_lazy("last hour"),
    "9h": gettext_lazy("last 9 hours"),
    "14d": gettext_lazy("last 14 days"),
}
_KINDS = ("completed", "retried", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One bin in the table beside the charts."""

    at: words.Moment
    depth: metrics.Depth | None
    completed: int
    retried: int
    failed: int
    lost: int
    run: str
    wait: str


def show(page: PagesAdmin, request: HttpRequest, name: str) -> HttpResponseBase:
    """Show throughput, failures, run time, wait and depth of a queue."""
    keys_or_404(name)
    name, links = conf().base_of(name), page.links()
    chosen = request.GET.get("range", "1h")
    chosen = chosen if chosen in charts.SPANS else "1h"
    found, depths, problem = _history(name, charts.SPANS[chosen])
    shown_name = render.one_line(name, 128)
    context: dict[str, Any] = {}
    if found is not None:
        shown = charts.bins(found, charts.SPANS[chosen], depths)
        total = found.total()
        context = {
            "throughput": charts.stacked(shown, _KINDS),
            "run": charts.curves(shown, "run"),
            "wait": charts.curves(shown, "wait"),
            "depth": charts.depth(shown),
            "depth_last": depths[-1] if depths else None,
            "total": total,
            "total_run": _percentiles(total.run),
            "total_wait": _percentiles(total.wait),
            "table": [_row(one) for one in reversed(shown) if _has_any(one)],
            "first": words.stamp(shown[0].start_ms),
            "last": words.stamp(found.now_ms),
        }
        context["run_top"] = words.exact_span(context["run"].top)
        context["wait_top"] = words.exact_span(context["wait"].top)
    return page.page(
        request,
        "metrics",
        [(_("Queues"), links.queues), (shown_name, links.queue(name)), (_("Figures"), None)],
        title=_("Figures of queue %(name)s") % {"name": shown_name},
        problem=problem,
        ranges=[
            Choice(label=label, url=f"?range={value}", current=value == chosen)
            for value, label in _LABELS.items()
        ],
        width=str(charts.WIDTH),
        height=str(charts.HEIGHT),
        read_at=words.stamp(found.now_ms) if found else None,
        dropped="",
        **context,
    )


def _history(
    name: str, span: charts.Span
) -> tuple[metrics.History | None, list[metrics.Depth], Problem | None]:
    queues = [keys(one) for one in bands.queues_of(name)]
    calls: list[tuple[Queue, Call[Any]]] = [
        (queue, metrics.history(queue, span.grain, span.count)) for queue in queues
    ]
    calls += [(queue, metrics.depths(queue, span.grain, span.count)) for queue in queues]
    try:
        answers = ask_where(calls)
    except EmqError as exc:
        answers = [exc]
    for answer in answers:
        if isinstance(answer, Exception):
            return None, [], words.problem(answer)
    found, depths = answers[: len(queues)], answers[len(queues) :]
    return metrics.History.sum_of(found), metrics.sum_of_depths(depths), None


def _row(one: Bin) -> Row:
    return Row(
        at=words.stamp(one.start_ms),
        depth=one.depth,
        completed=one.figures.completed,
        retried=one.figures.retried,
        failed=one.figures.failed,
        lost=one.figures.lost,
        run=_percentiles(one.figures.run),
        wait=_percentiles(one.figures.wait),
    )


def _has_any(one: Bin) -> bool:
    figures = one.figures
    return one.depth is not None or any(
        (figures.started, figures.completed, figures.retried, figures.failed, figures.lost)
    )


def _percentiles(durations: metrics.Durations) -> str:
    median, slow = durations.percentile_ms(0.5), durations.percentile_ms(0.95)
    if median is None or slow is None:
        return "-"
    return f"{words.exact_span(median)} / {words.exact_span(slow)}"
