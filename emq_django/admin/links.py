"""URLs of the pages on the admin site that is being looked at."""

from __future__ import annotations

from urllib.parse import quote as percent
from urllib.parse import urlencode

from django.contrib.admin.utils import quote, unquote
from django.urls import NoReverseMatch, reverse

from emq_django.admin import bands
from emq_django.admin.asking import Ask, Tab
from emq_django.admin.render import is_linkable
from emq_django.conf import conf
from emq_django.models import Job, Queue
from emq_django.protocol.ids import is_branded

BACK = "_back"
_PLACE = "PLACE"


class Links:
    """Makes links within one site; None where the site does not have the page.

    A list has hundreds of links of one shape, so the shape is looked up once.
    """

    def __init__(self, site_name: str) -> None:
        self._site_name = site_name
        self._queue = self._shape(Queue, "change")
        self._job = self._shape(Job, "change")
        self.queues = self._reverse(f"{_stem(Queue)}_changelist")
        self.workers = self._reverse(f"{_stem(Queue)}_workers")
        self.periodic = self._reverse(f"{_stem(Queue)}_periodic")

    def queue(self, name: str, ask: Ask | None = None) -> str | None:
        """Return the page of a queue, or of one of its lists; a band's is that of its queue."""
        return self._at(self._queue, conf().base_of(name), ask.url() if ask else "")

    def job(self, queue: str, job_id: str, back: str = "") -> str | None:
        """Return the page of a job; None for a foreign id that can't stand in a URL.

        ``back`` is the query string of the list that its page leads back to.
        """
        if not is_linkable(job_id):
            return None
        query = f"?{BACK}={percent(back.removeprefix('?'), safe='')}" if back else ""
        return self._at(self._job, job_key(queue, job_id), query)

    def lane(self, queue: str, lane: str | None) -> str | None:
        """Return the list of a lane's waiting jobs."""
        ask = Ask(lane=lane, band=bands.band_of(queue)) if lane and is_branded(lane) else None
        return self.queue(queue, ask) if ask else None

    def lanes(self, queue: str, band: str = "") -> str | None:
        """Return the list of a queue's lanes."""
        return self.queue(queue, Ask(tab=Tab.LANES, band=band))

    def walk(self, queue: str, state: str) -> str | None:
        """Return the progress page of a bulk action."""
        return self._at(self._shape(Queue, "walk"), queue, "?" + urlencode({"state": state}))

    def history(self, model: type[Queue | Job], key: str) -> str | None:
        """Return the stock page with what was done to a queue or a job."""
        return self._at(self._shape(model, "history"), key)

    def download(self, queue: str, job_id: str) -> str | None:
        """Return where the raw payload of a job is asked for."""
        return self._at(self._shape(Job, "download"), job_key(queue, job_id))

    def edit(self, queue: str, job_id: str) -> str | None:
        """Return the form for the payload of a job."""
        return self._at(self._shape(Job, "edit"), job_key(queue, job_id))

    def metrics(self, queue: str) -> str | None:
        """Return the page with a queue's figures over time."""
        return self._at(self._shape(Queue, "metrics"), queue)

    def _at(self, shape: str | None, key: str, query: str = "") -> str | None:
        return None if shape is None else shape.replace(_PLACE, _object_id(key)) + query

    def _shape(self, model: type[Queue | Job], page: str) -> str | None:
        return self._reverse(f"{_stem(model)}_{page}", _PLACE)

    def _reverse(self, name: str, *args: str) -> str | None:
        try:
            return reverse(f"admin:{name}", args=args, current_app=self._site_name)
        except NoReverseMatch:
            return None


def job_key(queue: str, job_id: str) -> str:
    """Return the primary key of a job: its queue and its id."""
    return f"{queue}/{job_id}"


def split_key(key: str) -> tuple[str, str] | None:
    """Return the queue and the id of a job's primary key; an id holds no slash."""
    queue, slash, job_id = key.rpartition("/")
    return (queue, job_id) if slash and queue and job_id else None


def _stem(model: type[Queue | Job]) -> str:
    meta = model._meta  # noqa: SLF001 - documented by Django
    return f"{meta.app_label}_{meta.model_name}"


# A browser would resolve these two as steps of the path; quote() leaves dots alone.
_DOTS = {".": "_2E", "..": "_2E_2E"}
_DOTTED = {quoted: dots for dots, quoted in _DOTS.items()}


def key_of(object_id: str) -> str:
    """Return the primary key that an object id in a URL stands for."""
    return _DOTTED.get(object_id) or str(unquote(object_id))


def _object_id(key: str) -> str:
    return percent(_DOTS.get(key) or str(quote(key)), safe="")
