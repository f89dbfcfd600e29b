"""Content types and permissions of the admin's pages. No table is made."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Queue",
            fields=[
                (
                    "name",
                    models.CharField(
                        max_length=255, primary_key=True, serialize=False, verbose_name="name"
                    ),
                ),
            ],
            options={
                "verbose_name": "queue",
                "verbose_name_plural": "queues",
                "managed": False,
                "base_manager_name": "objects",
                "default_permissions": ("view",),
                "permissions": [
                    ("pause_queue", "Can pause and resume queue"),
                    ("drain_queue", "Can drain pending jobs of queue"),
                    ("change_lane_queue", "Can pause, limit and weight lanes of queue"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                (
                    "key",
                    models.CharField(
                        max_length=400,
                        primary_key=True,
                        serialize=False,
                        verbose_name="queue and id",
                    ),
                ),
            ],
            options={
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
                "managed": False,
                "base_manager_name": "objects",
                "default_permissions": ("view",),
                "permissions": [
                    ("view_payload_job", "Can view payload, error and other contents of job"),
                    ("download_payload_job", "Can download raw payload of job"),
                    ("retry_job", "Can retry dead job"),
                    ("run_job", "Can run scheduled job now"),
                    ("cancel_job", "Can cancel active job"),
                    ("release_job", "Can expire the lease of active job"),
                    ("add_job", "Can enqueue a copy of job"),
                    ("change_job", "Can change payload of job"),
                    ("delete_job", "Can delete job"),
                ],
            },
        ),
    ]
