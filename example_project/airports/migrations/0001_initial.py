from __future__ import annotations

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Airport",
            fields=[
                (
                    "code",
                    models.CharField(
                        max_length=4, primary_key=True, serialize=False, verbose_name="ICAO code"
                    ),
                ),
                ("iata", models.CharField(blank=True, max_length=3, verbose_name="IATA code")),
                ("name", models.CharField(max_length=120)),
                ("city", models.CharField(blank=True, max_length=80)),
                ("region", models.CharField(blank=True, max_length=80)),
                ("country", models.CharField(max_length=2)),
                ("elevation_ft", models.FloatField(verbose_name="elevation (ft)")),
                ("latitude", models.FloatField()),
                ("longitude", models.FloatField()),
                ("time_zone", models.CharField(blank=True, max_length=40)),
            ],
            options={
                "ordering": ["code"],
            },
        ),
        migrations.CreateModel(
            name="Import",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("file_name", models.CharField(max_length=255)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("row_count", models.PositiveIntegerField()),
                ("chunk_count", models.PositiveIntegerField()),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="imports",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["-pk"],
            },
        ),
        migrations.CreateModel(
            name="ImportChunk",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("stored", models.PositiveIntegerField()),
                ("refused", models.PositiveIntegerField()),
                ("finished_at", models.DateTimeField(auto_now=True)),
                (
                    "imported",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="chunks",
                        to="airports.import",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RowError",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("line", models.PositiveIntegerField()),
                ("text", models.TextField()),
                ("reason", models.TextField()),
                (
                    "chunk",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="errors",
                        to="airports.importchunk",
                    ),
                ),
            ],
            options={
                "ordering": ["line", "pk"],
            },
        ),
        migrations.AddConstraint(
            model_name="importchunk",
            constraint=models.UniqueConstraint(
                fields=("imported", "number"), name="one_record_per_chunk"
            ),
        ),
    ]
