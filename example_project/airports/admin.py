from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin

from example_project.airports.models import Airport, Country, Import, RowError

if TYPE_CHECKING:
    AirportBase = admin.ModelAdmin[Airport]
    CountryBase = admin.ModelAdmin[Country]
    ImportBase = admin.ModelAdmin[Import]
    RowErrorBase = admin.ModelAdmin[RowError]
else:
    AirportBase = CountryBase = ImportBase = RowErrorBase = admin.ModelAdmin


@admin.register(Airport)
class AirportAdmin(AirportBase):
    list_display = ["code", "iata", "name", "city", "country"]
    search_fields = ["code", "iata", "name", "city"]


@admin.register(Country)
class CountryAdmin(CountryBase):
    list_display = ["code", "airports", "highest_ft", "counted_at"]


@admin.register(Import)
class ImportAdmin(ImportBase):
    list_display = ["file_name", "user", "created_at", "row_count", "chunk_count"]


@admin.register(RowError)
class RowErrorAdmin(RowErrorBase):
    list_display = ["line", "reason", "text"]
