"""App configurations as a project may write them, and a walk through the pages under them.

DJANGO_SETTINGS_MODULE=tests.django.settings_renamed python -m tests.django.renamed
"""

from __future__ import annotations

import sys
from typing import Any

import django
from django.contrib.admin.apps import AdminConfig
from django.utils.translation import gettext_lazy

from emq_django.apps import EmqConfig


class JobsConfig(EmqConfig):
    label = "background"
    verbose_name = gettext_lazy("Background work")
    default = False


class OwnAdminConfig(AdminConfig):
    default_site = "tests.django.renamed_site.OwnSite"
    default = False


def main() -> None:
    django.setup()
    from django.contrib.auth.models import Permission, User
    from django.core.management import call_command
    from django.test import Client

    call_command("migrate", verbosity=0)
    call_command("makemigrations", "background", check=True, dry_run=True, verbosity=0)
    user = User.objects.create_user("ann", is_staff=True)
    codenames = ("view_queue", "view_job", "pause_queue")
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label="background", codename__in=codenames)
    )
    client = Client()
    client.force_login(user)
    for path in ("", "default/change/", "workers/", "periodic/", "default/metrics/"):
        _check(client.get(f"/admin/background/queue/{path}"), path)
    _check(client.get("/admin/background/job/default_2FJOB00000000000/change/"), "job")
    paused = client.post("/admin/background/queue/default/change/", {"action": "pause"})
    _check(paused, "question")
    refused = client.post("/admin/background/queue/default/change/", {"action": "drain"})
    assert refused.status_code == 403
    page = client.get("/admin/").content.decode()
    assert "Background work" in page
    assert "Our own site" in page
    sys.stdout.write("all pages answered\n")


def _check(answer: Any, what: str) -> None:
    assert answer.status_code == 200, (what, answer.status_code)
    text = answer.content.decode()
    assert "Our own site" in text, what
    assert "/emq_django/queue/" not in text, what


if __name__ == "__main__":
    main()
