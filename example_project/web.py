"""The site, served from a thread of the launcher so that it cannot outlive it."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application

from example_project.options import USUAL_PORT
from example_project.processes import LaunchFailed

HOST = "127.0.0.1"


@contextlib.contextmanager
def running_site(port: int | None, log: Path) -> Iterator[str]:
    """Serve the site; give its URL."""
    server = _bind(port)
    server.set_app(StaticFilesHandler(get_wsgi_application()))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
    thread.daemon = True
    with _logging_to(log):
        thread.start()
        try:
            yield f"http://{HOST}:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _bind(port: int | None) -> ThreadedWSGIServer:
    wanted = USUAL_PORT if port is None else port
    try:
        return ThreadedWSGIServer((HOST, wanted), WSGIRequestHandler)
    except OSError as exc:
        if port is None:
            return ThreadedWSGIServer((HOST, 0), WSGIRequestHandler)
        raise LaunchFailed(
            f"The site cannot listen on port {port}: {exc.strerror}. Choose another --port."
        ) from exc


@contextlib.contextmanager
def _logging_to(log: Path) -> Iterator[None]:
    """Send what Django logs to a file: the terminal belongs to the progress."""
    handler = logging.FileHandler(log, mode="w", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    loggers = [logging.getLogger(), logging.getLogger("django"), logging.getLogger("django.server")]
    before = [logger.handlers for logger in loggers]
    for logger in loggers:
        logger.handlers = [handler]
    try:
        yield
    finally:
        for logger, handlers in zip(loggers, before, strict=True):
            logger.handlers = handlers
        handler.close()
