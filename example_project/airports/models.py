"""What an import stores: airports, and a record per chunk so that a second run changes nothing."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.urls import reverse


class Airport(models.Model):
    code = models.CharField("ICAO code", max_length=4, primary_key=True)
    iata = models.CharField("IATA code", max_length=3, blank=True)
    name = models.CharField(max_length=120)
    city = models.CharField(max_length=80, blank=True)
    region = models.CharField(max_length=80, blank=True)
    country = models.CharField(max_length=2)
    elevation_ft = models.FloatField("elevation (ft)")
    latitude = models.FloatField()
    longitude = models.FloatField()
    time_zone = models.CharField(max_length=40, blank=True)

    class Meta:
        ordering = ["code"]

    def __str__(self) -> str:
        return f"{self.code} {self.name}"


class Country(models.Model):
    """What the last count found: the task `count_airports` writes all of them anew."""

    code = models.CharField(max_length=2, primary_key=True)
    airports = models.PositiveIntegerField()
    highest_ft = models.FloatField("highest (ft)")
    counted_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-airports", "code"]
        verbose_name_plural = "countries"

    def __str__(self) -> str:
        return f"{self.code}: {self.airports}"


class Import(models.Model):
    """One uploaded file, cut into chunks; each chunk is one job."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="imports")
    file_name = models.CharField(max_length=255)
    created_at = models.DateTimeField(auto_now_add=True)
    row_count = models.PositiveIntegerField()
    chunk_count = models.PositiveIntegerField()

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"{self.file_name} ({self.row_count} rows)"

    def get_absolute_url(self) -> str:
        return reverse("import", args=[self.pk])


class ImportChunk(models.Model):
    """A chunk whose job has run. The constraint is what makes a second run an update."""

    imported = models.ForeignKey(Import, models.CASCADE, related_name="chunks")
    number = models.PositiveIntegerField()
    stored = models.PositiveIntegerField()
    refused = models.PositiveIntegerField()
    finished_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["imported", "number"], name="one_record_per_chunk")
        ]

    def __str__(self) -> str:
        return f"chunk {self.number} of import {self.imported_id}"


class RowError(models.Model):
    """A row that was refused, with the line of the file where it ends."""

    chunk = models.ForeignKey(ImportChunk, models.CASCADE, related_name="errors")
    line = models.PositiveIntegerField()
    text = models.TextField()
    reason = models.TextField()

    class Meta:
        ordering = ["line", "pk"]

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"
