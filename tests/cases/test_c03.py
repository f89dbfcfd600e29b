"""C03: a bulk enqueue says what the server did, also when it refused everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from emq_django import Verdict
from emq_django.conf import keys
from emq_django.errors import ServerReadOnly
from tests.engines import BINARIES, name_of, own_server
from tests.faces import Face
from tests.servers import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django.fixtures import Settings

    from tests.servers import Server

SIZES = (1, 999, 1_000, 1_001, 7_999, 8_000, 20_000)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("server")]


@pytest.mark.parametrize("binary", BINARIES, ids=name_of)
@pytest.mark.parametrize("face_name", ["sync", pytest.param("async", marks=pytest.mark.nightly)])
def test_a_replica_takes_nothing_and_a_primary_takes_every_size(
    binary: Path, face_name: str, settings: Settings
) -> None:
    dead = ("--replicaof", "127.0.0.1", str(free_port()))
    with own_server(binary, settings, *dead, ENQUEUE_DEADLINE_S=0.3) as server:
        face = Face("async" if face_name == "async" else "sync")
        try:
            _refused_by_a_replica(face, server)
            with server.client() as client:
                client.execute_command("REPLICAOF", "NO", "ONE")
            for size in SIZES:
                _taken_by_a_primary(face, server, size)
        finally:
            face.close()


def _refused_by_a_replica(face: Face, server: Server) -> None:
    with pytest.raises(ServerReadOnly, match="read only replica"):
        face.enqueue_many("emails", [b"1", b"2", b"3"])
    with pytest.raises(ServerReadOnly, match="read only replica"):
        face.enqueue("emails", b"1")

    with server.client() as client:
        assert client.dbsize() == 0


def _taken_by_a_primary(face: Face, server: Server, size: int) -> None:
    name = f"bulk-{size}"

    receipts = face.enqueue_many(name, [b"%d" % number for number in range(size)])

    q = keys(name)
    enqueued = [receipt for receipt in receipts if receipt.verdict is Verdict.ENQUEUED]
    with server.client() as client, client.pipeline(transaction=False) as pipe:
        for receipt in receipts:
            pipe.hget(q.row(receipt.id), "payload")
        payloads = pipe.execute()
        rows = sum(1 for _ in client.scan_iter(match=q.row_base + b"*", count=5_000))
        assert len(enqueued) == client.zcard(q.pending) == rows == size
    assert payloads == [b"%d" % number for number in range(size)]
