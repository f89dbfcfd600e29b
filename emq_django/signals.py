"""Signals of this package, for teams that keep an audit store of their own."""

from __future__ import annotations

from typing import Final

from django.dispatch import Signal

# Sent once for each action of an operator in the admin, after the server has answered. Arguments:
#   request   the request of the action; request.user pressed the button
#   verb      as the permission table of the admin's reference names it, "retry" for example
#   queue     name of the queue
#   targets   ids of the jobs (or lanes) that it was done to; empty for a bulk action
#   query     the filter of the list, as it stood in the URL
#   done, skipped, failed   how many of them
# A receiver that fails is logged and stops nothing.
queue_action: Final = Signal()
