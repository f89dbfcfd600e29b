"""Every error this package raises, in one tree.

::

    EmqError
    ├── ConfigError               the settings can't work as they are
    │   └── BackportMissing       Django before 6.0 without django-tasks
    ├── InvalidInput              refused on this side: nothing was sent
    │   ├── InvalidJobId
    │   ├── InvalidQueueName
    │   ├── InvalidLane
    │   ├── InvalidPayload
    │   │   └── PayloadTooLarge
    │   ├── InvalidDuration
    │   └── InvalidArguments      of a task
    ├── ProtocolError             the server ran the script and refused the request
    │   ├── KindRefused           the id is not JOB-namespaced
    │   ├── FenceRefused          the database belongs to another version of the protocol
    │   ├── WrongType             a key of the queue holds another type of value
    │   └── ScriptFailed          anything else a script said
    └── WireError                 the server could not be asked, or could not do it
        ├── Unreachable           no connection, or no reply in time
        │   ├── WrongAddress      something answers there that is no such server
        │   ├── TooManyClients    the server has as many connections as it may have
        │   └── ReplyLost         the command was sent: it may have run
        ├── ServerBusy            loading, failing over or running a long script
        ├── ServerReadOnly        a replica answered
        ├── ServerFull            the server is at its memory limit
        ├── NotReplicated         fewer replicas than the server demands
        ├── PersistenceFailed     the server can't write to its disk and stopped taking writes
        ├── AccessRefused         the user may not run the command
        │   └── LoginRefused      unknown user, wrong password, or none where one is needed
        ├── ModuleMissing         wire 6 is set and the node has no EMQ commands
        └── PartlyEnqueued        a bulk enqueue stopped half way; says what was admitted

Expected outcomes (a duplicate, an empty queue, a lease that was lost) are verdicts, not errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class EmqError(Exception):
    """Base of all errors of this package. ``remedy`` is what to do, where a kind has one."""

    remedy: ClassVar[str] = ""


class ConfigError(EmqError):
    """The settings can't work as they are. The message names the setting and the remedy."""


class BackportMissing(ConfigError, ImportError):
    """This Django has no tasks of its own, and the backport is not installed."""


class InvalidInput(EmqError, ValueError):
    """An argument was refused before anything was sent."""


class InvalidJobId(InvalidInput):
    """The id is not a branded id: three capitals and eleven base-62 digits within range."""


class InvalidQueueName(InvalidInput):
    """The queue name is empty, not text, or holds ``{``, ``}`` or NUL.

    A new queue's is also refused when it is ``emq``, has over 128 bytes, holds a character that
    can't be seen, or begins or ends with white space.
    """


class InvalidLane(InvalidInput):
    """The lane is not a branded id."""


class InvalidPayload(InvalidInput, TypeError):
    """The payload is not bytes."""


class PayloadTooLarge(InvalidPayload):
    """The payload is over ``EMQ["MAX_PAYLOAD_BYTES"]``."""


class InvalidDuration(InvalidInput):
    """A lease, a delay or a due time is not a whole number of ms within its range."""


class InvalidArguments(InvalidInput):
    """A task can't be called with these arguments, or JSON can't carry one, or a result."""


class ProtocolError(EmqError):
    """The server ran the script and the script refused the request."""


class KindRefused(ProtocolError):
    """The id is well formed but not JOB-namespaced (EMQKIND)."""


class FenceRefused(ProtocolError):
    """The database's version fence names another major version. Nothing was sent after it."""


class WrongType(ProtocolError):
    """A key of the queue holds a value of another type (WRONGTYPE). Nothing was written."""

    remedy = "emq_doctor tells which key of the queue holds something else"


class ScriptFailed(ProtocolError):
    """The script ended with an error that has no class of its own. The text is the server's."""


class WireError(EmqError):
    """The server could not be asked, or could not do what it was asked."""


class Unreachable(WireError):
    """No connection could be made. Nothing was sent."""

    remedy = 'start it, or correct EMQ["CONNECTION"]'


class WrongAddress(Unreachable):
    """Something answers there: another kind of server, or one without such a database."""

    remedy = 'correct EMQ["CONNECTION"]'


class TooManyClients(Unreachable):
    """The server has as many connections as it may have (``maxclients``)."""

    remedy = "end clients that are not needed, or raise its maxclients"


class ReplyLost(Unreachable):
    """The command was sent and no reply came: it may or may not have run."""


class ServerBusy(WireError):
    """The server is loading its data, failing over, migrating a slot or running a long script."""

    remedy = "wait, it answers again by itself"


class ServerReadOnly(WireError):
    """The server that answered is a replica (READONLY)."""

    remedy = 'it is a replica: name its master in EMQ["CONNECTION"]'


class ServerFull(WireError):
    """The server is at its memory limit (OOM). Nothing was written."""

    remedy = "give it memory, or remove jobs that nobody needs"


class NotReplicated(WireError):
    """The server has fewer replicas than it demands for a write (NOREPLICAS)."""


class PersistenceFailed(WireError):
    """The server can't save to its disk and refuses writes (MISCONF)."""

    remedy = "give it room on its disk"


class AccessRefused(WireError):
    """The user may not run this command (NOPERM), or may not come in at all."""

    remedy = "give its user the rights that docs/reference/wire.md lists"


class LoginRefused(AccessRefused):
    """The user is unknown, or the password wrong or missing (WRONGPASS, NOAUTH)."""

    remedy = "correct the user name or password in EMQ['CONNECTION'], or in its cache's LOCATION"


class ModuleMissing(WireError):
    """Wire 6 is set and the node does not know the EMQ commands."""


class PartlyEnqueued(WireError):
    """A bulk enqueue stopped half way.

    ``outcomes`` has one entry per item in input order: the receipt, or the error that kept the
    item out. An item whose error is a ``ReplyLost`` may have been admitted.
    """

    def __init__(self, message: str, outcomes: Sequence[object]) -> None:
        super().__init__(message)
        self.outcomes = outcomes
