from __future__ import annotations

from django.apps import AppConfig


class AirportsConfig(AppConfig):
    name = "example_project.airports"
    verbose_name = "Airports"
