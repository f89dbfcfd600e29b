"""From the driver's exceptions and the server's error words to the error tree. No I/O."""

from __future__ import annotations

import re

from redis import exceptions as driver

from emq_django import errors
from emq_django.errors import EmqError
from emq_django.wire.client import NotSent

# The server's first word -> our class. redis-py takes the word off where it has a class of its own
# (see _CLASSES); Redis 6.2 puts "Error running script" in front of what a script ran into.
WORDS: dict[str, type[EmqError]] = {
    "EMQKIND": errors.KindRefused,
    "EMQARG": errors.ScriptFailed,
    "EMQSTALE": errors.ScriptFailed,
    "EMQSTATE": errors.ScriptFailed,
    "WRONGTYPE": errors.WrongType,
    "OOM": errors.ServerFull,
    "READONLY": errors.ServerReadOnly,
    "NOREPLICAS": errors.NotReplicated,
    "MISCONF": errors.PersistenceFailed,
    "LOADING": errors.ServerBusy,
    "BUSY": errors.ServerBusy,
    "TRYAGAIN": errors.ServerBusy,
    "CLUSTERDOWN": errors.ServerBusy,
    "MASTERDOWN": errors.ServerBusy,
    "NOPERM": errors.AccessRefused,
    "NOAUTH": errors.LoginRefused,
    "WRONGPASS": errors.LoginRefused,
}
_WORD = re.compile(r"\b(" + "|".join(WORDS) + r")\b")
# How NOPERM reads when it is a script's own command that is refused: Redis 6.2 and 7.0, Valkey.
_REFUSED_IN_SCRIPT = re.compile("The user executing the script can't|ACL failure in script")

_CLASSES: tuple[tuple[type[Exception], type[EmqError]], ...] = (
    (driver.AuthenticationError, errors.LoginRefused),
    (driver.AuthorizationError, errors.AccessRefused),
    (driver.NoPermissionError, errors.AccessRefused),
    (driver.BusyLoadingError, errors.ServerBusy),
    (driver.ReadOnlyError, errors.ServerReadOnly),
    (driver.OutOfMemoryError, errors.ServerFull),
    (driver.ClusterDownError, errors.ServerBusy),
    (driver.TryAgainError, errors.ServerBusy),
    (driver.MasterDownError, errors.ServerBusy),
    (driver.ClusterError, errors.ServerBusy),
    (driver.NoScriptError, errors.ServerBusy),  # forgotten as fast as it is loaded
)

_TAKEN_OFF: dict[type[Exception], str] = {
    driver.ReadOnlyError: "READONLY",
    driver.OutOfMemoryError: "OOM",
    driver.NoPermissionError: "NOPERM",
    driver.BusyLoadingError: "LOADING",
    driver.ClusterDownError: "CLUSTERDOWN",
    driver.TryAgainError: "TRYAGAIN",
    driver.MasterDownError: "MASTERDOWN",
}

# How a server says, while a connection is made, that it has no database of that number.
_NO_DATABASE = re.compile("DB index|not an integer or out of range|SELECT is not allowed")

# InvalidResponse: what came back is not the server's protocol.
_NO_REPLY = (driver.ConnectionError, driver.TimeoutError, driver.InvalidResponse, OSError)


def error_for(exc: BaseException) -> EmqError:
    """Return our error for what a client raised, with the driver's error as its cause."""
    if isinstance(exc, EmqError):
        return exc
    if isinstance(exc, NotSent):
        cause = exc.__cause__ or exc
        return _with_cause(_known(cause) or _not_made(cause), cause)
    known = _known(exc)
    if known is None and isinstance(exc, _NO_REPLY):
        known = errors.ReplyLost(f"no reply, the command may have run: {exc}")
    return _with_cause(known or errors.ScriptFailed(str(exc)), exc)


def _known(exc: BaseException) -> EmqError | None:
    text = str(exc)
    for driver_class, our_class in _CLASSES:
        if isinstance(exc, driver_class):
            return our_class(_with_word(driver_class, text))
    if not isinstance(exc, driver.ResponseError):
        return None
    if text.startswith("unknown command") and "EMQ." in text[:40].upper():
        return errors.ModuleMissing(
            f"{text} - this node has no EMQ module; set EMQ['WIRE'] to 4, or load the module"
        )
    if isinstance(exc, driver.AskError):  # MovedError too
        return errors.WireError(
            f"the server is a node of a cluster and another one holds the queue ({text}): nothing"
            " ran; name a cluster client in EMQ['CONNECTION']"
        )
    if _REFUSED_IN_SCRIPT.search(text):
        return errors.AccessRefused(text)
    word = _WORD.search(text)
    return WORDS[word[1]](text) if word else None


def _not_made(cause: BaseException) -> EmqError:
    """Return why there is no connection; what answered runs, so that nobody need start it."""
    text = str(cause)
    if isinstance(cause, driver.InvalidResponse):
        return errors.WrongAddress(f"no connection: what answers is no Redis or Valkey: {text}")
    if isinstance(cause, driver.ResponseError) and _NO_DATABASE.search(text):
        return errors.WrongAddress(f"no connection: the server has no such database: {text}")
    if "max number of clients" in text:
        return errors.TooManyClients(f"no connection: {text}")
    return errors.Unreachable(f"no connection: {text}")


def _with_word(kind: type[Exception], text: str) -> str:
    """Return the server's text as it sent it: with the word that operators look for."""
    word = _TAKEN_OFF.get(kind, "")
    return text if word in text else f"{word} {text}"


def _with_cause(error: EmqError, cause: BaseException) -> EmqError:
    error.__cause__ = cause
    return error
