"""Groups of real servers: a cluster of masters, and a master with its replica and Sentinels."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis

from emq_django.embedded import LOOPBACK, ServerUnavailable
from emq_django.protocol.keyspace import slot
from tests.servers import Server, free_port, start_server

if TYPE_CHECKING:
    from collections.abc import Callable

_SLOTS = 16_384
_WAIT_S = 20


def wait_until(condition: Callable[[], Any], what: str, timeout_s: float = _WAIT_S) -> None:
    """Return as soon as `condition` holds; errors of a server on its way up are waited out."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with contextlib.suppress(redis.RedisError, OSError):
            if condition():
                return
        time.sleep(0.02)  # polls another process, which has no event to wait for
    raise TimeoutError(f"{what} did not happen within {timeout_s} s")


@dataclass
class Cluster:
    """Masters that share the slots evenly."""

    nodes: list[Server] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.nodes[0].url

    def client(self, key: bytes) -> redis.Redis:
        """Return a client of the node that was given the slot of `key` at the start."""
        return self.nodes[slot(key) * len(self.nodes) // _SLOTS].client()

    def move_slot(self, wanted: int, source: Server, target: Server) -> None:
        """Hand an empty slot over, as a finished migration would."""
        with target.client() as client:
            name = client.execute_command("CLUSTER", "MYID").decode()
        for node in (target, source, *self.nodes):
            with node.client() as client:
                client.execute_command("CLUSTER", "SETSLOT", wanted, "NODE", name)

    def close(self) -> None:
        for node in self.nodes:
            node.close()


def start_cluster(masters: int = 3, binary: str | None = None) -> Cluster:
    cluster = Cluster()
    try:
        for _ in range(masters):
            cluster.nodes.append(_start_node(binary))
        _join(cluster.nodes)
    except BaseException:
        cluster.close()
        raise
    return cluster


def _start_node(binary: str | None) -> Server:
    args = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
    try:
        return start_server(*args, "--cluster-port", str(free_port()), binary=binary)
    except ServerUnavailable as exc:
        if "cluster-port" not in str(exc):
            raise
    # Redis 6.2 can't be told: its bus has the port 10,000 above the server's.
    while (port := free_port()) > 55_535:
        pass
    return start_server(*args, binary=binary, port=port)


def _bus_port(node: Server) -> int:
    args = node._args
    return (
        int(args[args.index("--cluster-port") + 1])
        if "--cluster-port" in args
        else node.port + 10_000
    )


def _join(nodes: list[Server]) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(node.client()) for node in nodes]
        for index, client in enumerate(clients):
            # Rounded up, so that slot * masters // 16384 names the owner.
            first = -(-index * _SLOTS // len(nodes))
            last = -(-(index + 1) * _SLOTS // len(nodes)) - 1
            client.execute_command("CLUSTER", "ADDSLOTS", *range(first, last + 1))
            client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
        for node in nodes[1:]:
            clients[0].execute_command("CLUSTER", "MEET", LOOPBACK, node.port, _bus_port(node))
        for client in clients:
            wait_until(lambda client=client: _complete(client, len(nodes)), "the cluster")  # type: ignore[misc]


def _complete(client: redis.Redis, size: int) -> bool:
    info: bytes = client.execute_command("CLUSTER", "INFO")  # type: ignore[no-untyped-call]
    return b"cluster_state:ok" in info and b"cluster_known_nodes:%d" % size in info


@dataclass
class Sentinels:
    """One master, one replica, and the Sentinels that watch them under the name `service`."""

    master: Server
    replica: Server
    service: str
    ports: list[int]
    processes: list[subprocess.Popen[bytes]]
    folder: Path

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [(LOOPBACK, port) for port in self.ports]

    def master_port(self) -> int:
        """Return the port of the master as the first Sentinel knows it."""
        with redis.Redis(host=LOOPBACK, port=self.ports[0], protocol=2) as client:
            reply = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service)
        return int(reply[1])

    def fail_over(self) -> None:
        """Ask for a planned failover and wait until the replica is the master."""
        with redis.Redis(host=LOOPBACK, port=self.ports[0], protocol=2) as client:
            client.execute_command("SENTINEL", "FAILOVER", self.service)
        self.wait_for(self.replica)

    def wait_for(self, server: Server) -> None:
        """Wait until `server` is the master for everybody, itself included."""
        wait_until(lambda: self.master_port() == server.port, "the failover")
        with server.client() as client:
            wait_until(lambda: client.execute_command("ROLE")[0] == b"master", "the promotion")

    def close(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.master.close()
        self.replica.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def start_sentinels(*master_args: str, sentinels: int = 3, binary: str | None = None) -> Sentinels:
    """Start the group and return when every Sentinel knows all the others and the replica."""
    master = start_server(*master_args, binary=binary)
    replica = start_server("--replicaof", LOOPBACK, str(master.port), binary=binary)
    folder = Path(tempfile.mkdtemp(prefix="emq-sentinel-"))
    ports = [free_port() for _ in range(sentinels)]
    group = Sentinels(master, replica, "emq", ports, [], folder)
    try:
        for port in ports:
            group.processes.append(_start_sentinel(master, port, folder, sentinels // 2 + 1))
        with replica.client() as client:
            wait_until(lambda: client.execute_command("ROLE")[3] == b"connected", "replication")
        for port in ports:
            wait_until(lambda port=port: _knows_all(port, sentinels), "the Sentinels")  # type: ignore[misc]
    except BaseException:
        group.close()
        raise
    return group


def _start_sentinel(
    master: Server, port: int, folder: Path, quorum: int
) -> subprocess.Popen[bytes]:
    config = folder / f"{port}.conf"
    config.write_text(
        f"port {port}\nbind {LOOPBACK}\ndir {folder}\n"
        f"sentinel monitor emq {LOOPBACK} {master.port} {quorum}\n"
        "sentinel down-after-milliseconds emq 500\n"
        "sentinel failover-timeout emq 1000\n"
    )
    with (folder / f"{port}.log").open("wb") as log:
        return subprocess.Popen(
            [os.fspath(master.binary), os.fspath(config), "--sentinel"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _knows_all(port: int, sentinels: int) -> bool:
    with redis.Redis(host=LOOPBACK, port=port, protocol=2) as client:
        reply = client.execute_command("SENTINEL", "MASTER", "emq")
    known = dict(zip(reply[::2], reply[1::2], strict=True))
    return known[b"num-slaves"] == b"1" and int(known[b"num-other-sentinels"]) == sentinels - 1
