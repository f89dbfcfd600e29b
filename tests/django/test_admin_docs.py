"""What the documentation of the admin says is what the code does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from emq_django.admin import asking
from emq_django.admin.redact import mask_secrets
from emq_django.admin.registry import VERBS, Confirm
from tests.django.conftest import Jobs, job_url, overview_url, queue_url, text_of
from tests.django.test_admin_models import CODENAMES

DOCS = Path(__file__).resolve().parents[2] / "docs"
REFERENCE = DOCS / "reference" / "admin.md"
SUPPORT = DOCS / "how-to" / "give-support-read-only-access.md"


def code_in(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def test_the_recipe_makes_a_group_that_reads_and_sees_no_contents(db: None, jobs: Jobs) -> None:
    (recipe,) = code_in(SUPPORT)
    exec(recipe, {})
    member = User.objects.create_user("member", is_staff=True)
    member.groups.add(Group.objects.get(name="Queue support"))
    client = Client()
    client.force_login(member)
    job_id = jobs.add(b"the contents")

    for url in (overview_url(), queue_url(jobs.name), job_url(jobs.name, job_id)):
        answer = client.get(url)
        assert answer.status_code == 200
        assert "the contents" not in text_of(answer)
        assert client.post(url, {"action": "delete"}).status_code in {403, 405}
    assert 'name="action"' not in text_of(client.get(queue_url(jobs.name)))
    assert ">Payload<" not in text_of(client.get(queue_url(jobs.name)))
    assert "Job queues" in text_of(client.get("/admin/"))


def permission_table() -> str:
    """The table of actions in the reference, from the registry."""
    questions = {Confirm.NO: "no", Confirm.YES: "yes", Confirm.TYPED: "with the queue's name"}
    return "".join(
        f"| `{verb.name}` | {verb.label} | `{verb.codename}` | {questions[verb.confirm]} |\n"
        for verb in VERBS.values()
    )


def test_the_table_of_actions_is_the_registry() -> None:
    assert permission_table() in REFERENCE.read_text()


def test_the_example_of_permissions_per_queue_works(db: None) -> None:
    scope: dict[str, Any] = {}
    exec(code_in(REFERENCE)[1], scope)
    user = User.objects.create_user("ann")

    assert scope["can"](user, "retry_job", "mail") is True
    assert scope["can"](user, "retry_job", "payments-eu") is False
    user.groups.add(Group.objects.create(name="Payments"))
    assert scope["can"](user, "retry_job", "payments-eu") is True


def test_every_permission_and_parameter_is_named() -> None:
    text = REFERENCE.read_text()

    for name in (*CODENAMES, *asking.KNOWN, *asking.Tab, *asking.Order, *asking.WINDOWS_MS):
        assert re.search(rf"`(emq_django\.)?{name}`", text), name


def test_the_example_of_a_hook_works(
    staff: Callable[..., Client], jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope: dict[str, object] = {}
    exec(code_in(REFERENCE)[2], scope)
    assert scope["mask_secrets"] is mask_secrets
    monkeypatch.setattr("emq_django.admin.render._redactor", lambda: scope["redact"])
    job_id = jobs.add(b'{"token": "t-1", "to": "ann"}')

    page = text_of(staff(is_superuser=True).get(job_url(jobs.name, job_id)))

    assert "ann" in page
    assert "t-1" not in page
