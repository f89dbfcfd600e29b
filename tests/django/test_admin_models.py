"""The models exist for permissions and content types; no table stands behind them."""

from __future__ import annotations

import io

import pytest
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command

from emq_django.models import Job, Queue

pytestmark = pytest.mark.django_db

CODENAMES = {
    "add_job", "cancel_job", "change_job", "change_lane_queue", "delete_job",
    "download_payload_job", "drain_queue", "pause_queue", "release_job", "retry_job", "run_job",
    "view_job", "view_payload_job", "view_queue",
}  # fmt: skip


@pytest.mark.smoke
def test_migrating_makes_the_content_types_and_permissions_of_the_admin() -> None:
    found = Permission.objects.filter(content_type__app_label="emq_django")

    assert set(found.values_list("codename", flat=True)) == CODENAMES
    assert {row.content_type.model for row in found} == {"job", "queue"}


@pytest.mark.smoke
def test_the_migration_says_what_the_models_say() -> None:
    call_command("makemigrations", "emq_django", check=True, dry_run=True, verbosity=0)


@pytest.mark.parametrize("everything", [False, True], ids=["default manager", "base manager"])
def test_dumpdata_of_a_whole_project_asks_no_missing_table(everything: bool) -> None:
    out = io.StringIO()

    call_command("dumpdata", use_base_manager=everything, stdout=out)

    assert "emq_django.queue" not in out.getvalue()


@pytest.mark.parametrize("model", [Queue, Job])
def test_a_stray_query_answers_nothing(model: type[Queue | Job]) -> None:
    assert list(model._default_manager.all()) == []
    assert model._base_manager.filter(pk="emails").first() is None


def test_content_types_are_not_stale() -> None:
    call_command("remove_stale_contenttypes", interactive=False, verbosity=0)

    assert ContentType.objects.filter(app_label="emq_django").count() == 2
