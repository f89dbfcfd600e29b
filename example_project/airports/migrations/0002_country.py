from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("airports", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Country",
            fields=[
                ("code", models.CharField(max_length=2, primary_key=True, serialize=False)),
                ("airports", models.PositiveIntegerField()),
                ("highest_ft", models.FloatField(verbose_name="highest (ft)")),
                ("counted_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "verbose_name_plural": "countries",
                "ordering": ["-airports", "code"],
            },
        ),
    ]
