"""Where a worker's log goes when the project does not say: standard error, as text or as JSON."""

from __future__ import annotations

import logging
from typing import Final

from emq_django.worker.log import JsonLines

_LEVELS: Final = (logging.WARNING, logging.INFO, logging.DEBUG, logging.DEBUG)  # by --verbosity


def show_log(verbosity: int, *, as_json: bool) -> None:
    """Show the log where the project's LOGGING has no place for it, or as JSON beside that."""
    logger = logging.getLogger("emq_django")
    if logger.hasHandlers() and not as_json:
        return
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JsonLines() if as_json else text)
    logger.addHandler(handler)
    logger.setLevel(_LEVELS[verbosity])
