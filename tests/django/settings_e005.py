"""A handler that can not be imported."""

from __future__ import annotations

from tests.settings import *  # noqa: F403

EMQ = {
    "CONNECTION": "queue",
    "QUEUES": {
        "lost": {"HANDLER": "tests.no_such_module.run"},
        "broken": {"HANDLER": "tests.django.broken_handlers.run"},
        "data": {"HANDLER": "tests.django.settings_e005.SECRET_KEY"},
    },
}
