"""C166: no payload runs code: not in a worker, not on a page, not in a command."""

from __future__ import annotations

import ast
import json
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client
from django.urls import reverse

import emq_django
from emq_django.api import enqueue
from emq_django.conf import keys
from emq_django.connections import wire_for
from emq_django.protocol import read
from tests.django.conftest import job_url, queue_url
from tests.operating.shell import run_here
from tests.worker.processes import until

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from tests.task_backend.conftest import Desk

PACKAGE = Path(emq_django.__file__).parent
NEVER = {"pickle", "marshal", "shelve", "yaml", "dill", "cloudpickle", "jsonpickle"}
CALLS = {"eval", "exec", "compile", "__import__"}


class Touches:
    """What a pickle of it does when it is loaded: make a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self._path,))


def payloads(path: Path) -> list[bytes]:
    command = f"touch {path}"
    task = {"v": 1, "task": "os.system", "args": [command], "kwargs": {}}
    opening = [f"open({str(path)!r}, 'w')"]
    return [
        *(pickle.dumps(Touches(path), protocol) for protocol in (0, 2, 5)),
        f"!!python/object/apply:os.system ['{command}']".encode(),
        json.dumps({"py/object": "os.system", "py/reduce": [command]}).encode(),
        json.dumps({"py/function": "os.system", "args": [command]}).encode(),
        json.dumps(task).encode(),
        json.dumps({**task, "task": "subprocess.getoutput"}).encode(),
        json.dumps({**task, "task": "builtins.eval", "args": opening}).encode(),
    ]  # fmt: skip


@pytest.fixture
def root(client: Client, admin_user: User) -> Client:
    client.force_login(admin_user)
    return client


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)  # commands close its connections
def test_hostile_payloads_make_no_file_wherever_they_are_read(
    desk: Desk, root: Client, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    desk.emq["UNKNOWN_TASK_GRACE_S"] = 0
    hostile = payloads(made)
    pickle.loads(hostile[0])  # it would do harm
    assert made.exists()
    made.unlink()
    ids = [enqueue(desk.queue, payload).id for payload in hostile]

    look_at(root, desk, ids)
    desk.start("--processes", "0")
    until(lambda: desk.counts().dead == len(ids), "all are dead")
    look_at(root, desk, ids)

    assert not made.exists()
    where = keys(desk.queue)
    for job_id, payload in zip(ids, hostile, strict=True):
        row = wire_for(where).run(read.row(where, job_id))
        assert row is not None
        assert row.fields["payload"].value == payload


def look_at(root: Client, desk: Desk, ids: list[str]) -> None:
    """Show the jobs on their pages and with the command."""
    assert root.get(queue_url(desk.queue)).status_code == 200
    assert root.get(reverse("admin:emq_django_queue_changelist")).status_code == 200
    for job_id in ids:
        assert root.get(job_url(desk.queue, job_id)).status_code == 200
        for more in ((), ("--json",)):
            assert run_here("emq_job", job_id, "--queue", desk.queue, *more).code == 0


def test_the_package_has_nothing_that_turns_data_into_code() -> None:
    found = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = {
                ast.Import: lambda n: [one.name for one in n.names],
                ast.ImportFrom: lambda n: [n.module or ""],
                ast.Call: lambda n: [n.func.id] if isinstance(n.func, ast.Name) else [],
            }.get(type(node), lambda _: [])(node)  # type: ignore[no-untyped-call]
            banned = CALLS if isinstance(node, ast.Call) else NEVER
            found += [f"{path}: {name}" for name in names if name.split(".")[0] in banned]
    assert found == []
