"""`manage.py emq_server`: become a Redis or Valkey server with settings that keep jobs."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from emq_django import embedded
from emq_django.errors import ConfigError


class Command(BaseCommand):
    """Start the server in the place of this process: Ctrl-C, SIGTERM and the log are its own."""

    help = "Runs a server for development, by default where the settings look for the queue."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, help="TCP port on 127.0.0.1; 0 for none")
        parser.add_argument("--unixsocket", type=Path, help="path of a socket to listen on as well")
        parser.add_argument("--data-dir", type=Path, default=embedded.DEFAULT_DATA_DIR)
        parser.add_argument("--binary", help="the server program, where it is not found by itself")

    def handle(self, *args: Any, **options: Any) -> None:
        wanted = _queue_address()
        port, path = options["port"], options["unixsocket"]
        if port is None and path is None:
            if isinstance(wanted, Path):
                path = wanted
            else:
                port = (
                    wanted[1]
                    if wanted and wanted[0] == embedded.LOOPBACK
                    else embedded.DEFAULT_PORT
                )
        server = embedded.ServerOptions(
            data_dir=options["data_dir"], port=port or 0, unix_socket=path
        )
        try:
            program, arguments = embedded.find_server(options["binary"]), server.arguments()
        except ConfigError as exc:
            raise CommandError(str(exc)) from exc
        places = ", ".join(map(embedded.spell, server.addresses))
        if wanted is not None and wanted not in server.addresses:
            self.stderr.write(
                f"The settings look for the queue at {embedded.spell(wanted)}, not here."
            )
        if any(embedded.ping(address) for address in server.addresses):
            self.stdout.write(f"A server is already running at {places}; nothing was started.")
            return
        try:
            embedded.make_data_dir(server.data_dir)
        except OSError as exc:
            raise CommandError(
                f"--data-dir {str(server.data_dir)!r} can't be made: {exc.strerror}"
            ) from exc
        self.stdout.write(f"{program.name} at {places}, data in {server.data_dir}")
        self.stdout.flush()
        os.execv(program, [str(program), *arguments])  # noqa: S606 - no shell, and a found program


def _queue_address() -> embedded.Address | None:
    """Return where the settings look for the queue, or None where they give no single address."""
    connection = getattr(settings, "EMQ", {}).get("CONNECTION", "default")
    location = settings.CACHES.get(connection, {}).get("LOCATION", connection)
    return embedded.address_of(location) if isinstance(location, str) else None
