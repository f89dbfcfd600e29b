"""How a tree tells the system about itself: systemd, a health file, process titles."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from emq_django.worker.log import logger

_EVERY_S: Final = 1.0


def title(text: str) -> None:
    """Set this process's title where ``setproctitle`` is installed (the extra "titles").

    Its first fifteen bytes become the process's name for the kernel. A space among them moves all
    that follows in ``/proc/self/stat``, where Python counts threads by the spaces: it then takes
    the priority of a process that is started by ``nice`` for them, and warns at every fork.
    """
    with contextlib.suppress(ImportError):
        importlib.import_module("setproctitle").setproctitle(f"emq_worker[{text}]")


class Systemd:
    """Datagrams to ``NOTIFY_SOCKET``; without one, nothing happens."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        watchdog_us = environment.get("WATCHDOG_USEC", "")
        self.watchdog_s = int(watchdog_us) / 2_000_000 if watchdog_us.isdigit() else 0.0

    def tell(self, text: str) -> None:
        """Send one state, such as READY=1."""
        if not self._address:
            return
        address = self._address
        if address.startswith("@"):
            address = f"\0{address[1:]}"
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.sendto(text.encode(), address)


class Notices:
    """Says that the tree is ready, alive and stopping."""

    def __init__(self, health_file: str = "", environment: Mapping[str, str] = os.environ) -> None:
        self._systemd = Systemd(environment)
        self._path = Path(health_file) if health_file else None
        every_s = [self._systemd.watchdog_s] if self._systemd.watchdog_s else []
        every_s += [_EVERY_S] if self._path else []
        self._every_s = min(every_s, default=0.0)
        self._next_at_s = 0.0
        self._is_in_trouble = False

    def ready(self) -> None:
        """Say that every process of the tree has been started."""
        self._systemd.tell("READY=1")

    def stopping(self) -> None:
        """Say that the tree takes nothing more."""
        self._systemd.tell("STOPPING=1")

    def next_in_s(self) -> float | None:
        """Return the time until the next sign of life, None for none at all."""
        return max(self._next_at_s - time.monotonic(), 0.0) if self._every_s else None

    def tick(self, state: Callable[[], Mapping[str, Any]]) -> None:
        """Give a sign of life if it is due. Called only from the loop that looks after all else."""
        now_s = time.monotonic()
        if not self._every_s or now_s < self._next_at_s:
            return
        self._next_at_s = now_s + self._every_s
        if self._systemd.watchdog_s:
            self._systemd.tell("WATCHDOG=1")
        if self._path is not None:
            self._write(self._path, json.dumps(dict(state())))

    def _write(self, path: Path, text: str) -> None:
        """Write the health file. That it can't be written is told once: a probe sees no more."""
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(path)  # a reader never sees half of it
        except OSError as exc:
            if not self._is_in_trouble:
                logger.error("the health file can't be written, jobs go on: %s", exc)
            self._is_in_trouble = True
        else:
            self._is_in_trouble = False

    def close(self) -> None:
        """Remove the health file."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
