"""Runs in the worker too: a task, with arguments and a value where a handler gets bytes.

The button on the page of the countries enqueues it, and ``EMQ["PERIODIC"]`` does again and again.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import Count, Max

from emq_django import task
from example_project.airports.models import Airport, Country


@task(unique=True, max_attempts=3, soft_time_limit_s=30)
def count_airports() -> int:
    """Count the airports of each country; return how many countries there are.

    ``unique``: while one count waits or runs, whoever asks for another gets the one that lives.
    """
    found = Airport.objects.order_by().values("country")
    rows = found.annotate(airports=Count("pk"), highest_ft=Max("elevation_ft"))
    with transaction.atomic():
        Country.objects.all().delete()
        Country.objects.bulk_create(
            Country(code=row["country"], airports=row["airports"], highest_ft=row["highest_ft"])
            for row in rows
        )
        return Country.objects.count()
