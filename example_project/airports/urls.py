from __future__ import annotations

from django.urls import path

from example_project.airports import views

urlpatterns = [
    path("", views.imports, name="imports"),
    path("imports/<int:pk>/", views.import_page, name="import"),
    path("imports/<int:pk>/progress/", views.import_progress, name="import-progress"),
    path("airports/", views.airports, name="airports"),
    path("countries/", views.countries, name="countries"),
    path("counts/<str:result_id>/", views.count, name="count"),
]
