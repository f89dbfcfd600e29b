"""From the driver's exceptions and the server's words to the error tree."""

from __future__ import annotations

import pytest
from redis import exceptions as driver

from emq_django import errors
from emq_django.wire.client import NotSent
from emq_django.wire.replies import WORDS, error_for

IN_SCRIPT_OF_62 = (
    "Error running script (call to f_4ca238f611c9d0ae4e9a75a5dbac22aedc1e64f1):"
    " @user_script:15: @user_script: 15: -{} "
)
SENTENCES = [
    (IN_SCRIPT_OF_62.format("OOM command not allowed when used memory > 'maxmemory'."),
     errors.ServerFull),
    (IN_SCRIPT_OF_62.format("READONLY You can't write against a read only replica."),
     errors.ServerReadOnly),
    (IN_SCRIPT_OF_62.format("NOREPLICAS Not enough good replicas to write."), errors.NotReplicated),
    (IN_SCRIPT_OF_62.format("MISCONF Redis is configured to save RDB snapshots, but"),
     errors.PersistenceFailed),
    (IN_SCRIPT_OF_62.format("WRONGTYPE Operation against a key holding the wrong kind of value"),
     errors.WrongType),
    ("WRONGTYPE Operation against a key holding the wrong kind of value script: 4ca2",
     errors.WrongType),
    (IN_SCRIPT_OF_62.format("The user executing the script can't run this command or subcommand"),
     errors.AccessRefused),
    ("The user executing the script can't access at least one of the keys", errors.AccessRefused),
    ("ACL failure in script: User u has no permissions to run the 'zadd' command",
     errors.AccessRefused),
    ("EMQKIND job id must be JOB-namespaced", errors.KindRefused),
    ("EMQNEW a class of a later version", errors.ScriptFailed),
    ("BUSYGROUP Consumer Group name already exists", errors.ScriptFailed),
    ("unknown command 'EMQ.CLAIM', with args beginning with: '3' ", errors.ModuleMissing),
    ("unknown command `emq.enqueue`, with args beginning with: `2`, ", errors.ModuleMissing),
    ("unknown command 'HELLO', with args beginning with: 'EMQ.CLAIM'", errors.ScriptFailed),
]  # fmt: skip
CLASSES = [
    (driver.AuthenticationError("no"), errors.LoginRefused),
    (driver.AuthorizationError("no"), errors.AccessRefused),
    (driver.NoPermissionError("no"), errors.AccessRefused),
    (driver.BusyLoadingError("no"), errors.ServerBusy),
    (driver.ReadOnlyError("no"), errors.ServerReadOnly),
    (driver.OutOfMemoryError("no"), errors.ServerFull),
    (driver.ClusterDownError("no"), errors.ServerBusy),
    (driver.TryAgainError("no"), errors.ServerBusy),
    (driver.MasterDownError("no"), errors.ServerBusy),
    (driver.ClusterError("TTL exhausted."), errors.ServerBusy),
    (driver.NoScriptError("No matching script."), errors.ServerBusy),
    (driver.MovedError("5798 127.0.0.1:7001"), errors.WireError),
    (driver.AskError("5798 127.0.0.1:7001"), errors.WireError),
    (driver.ConnectionError("closed"), errors.ReplyLost),
    (driver.TimeoutError("late"), errors.ReplyLost),
    (driver.InvalidResponse("what?"), errors.ReplyLost),
    (ConnectionResetError(104, "reset"), errors.ReplyLost),
    (driver.DataError("odd"), errors.ScriptFailed),
]


@pytest.mark.parametrize(("text", "error"), SENTENCES)
def test_a_servers_sentence_becomes_its_error(text: str, error: type[errors.EmqError]) -> None:
    exc = driver.ResponseError(text)

    found = error_for(exc)

    assert type(found) is error
    assert text in str(found)
    assert found.__cause__ is exc


@pytest.mark.parametrize(("word", "error"), WORDS.items())
def test_every_word_is_known_at_the_beginning(word: str, error: type[errors.EmqError]) -> None:
    assert type(error_for(driver.ResponseError(f"{word} and a reason"))) is error


@pytest.mark.parametrize(("exc", "error"), CLASSES, ids=lambda one: type(one).__name__)
def test_a_drivers_class_becomes_our_error(exc: Exception, error: type[errors.EmqError]) -> None:
    found = error_for(exc)

    assert type(found) is error
    assert found.__cause__ is exc


def _not_sent(cause: Exception) -> NotSent:
    exc = NotSent()
    exc.__cause__ = cause
    return exc


@pytest.mark.parametrize(
    ("cause", "error"),
    [
        (driver.ConnectionError("Error 111"), errors.Unreachable),
        (driver.TimeoutError("late"), errors.Unreachable),
        (OSError("no route"), errors.Unreachable),
        (driver.AuthenticationError("invalid"), errors.LoginRefused),
        (driver.BusyLoadingError("loading"), errors.ServerBusy),
        (driver.InvalidResponse('Protocol error, got "<"'), errors.WrongAddress),
        (driver.ResponseError("DB index is out of range"), errors.WrongAddress),
        (driver.ResponseError("max number of clients reached"), errors.TooManyClients),
        (driver.ConnectionError("max number of clients reached"), errors.TooManyClients),
    ],
    ids=repr,
)
def test_what_failed_before_anything_was_sent_is_no_lost_reply(
    cause: Exception, error: type[errors.EmqError]
) -> None:
    found = error_for(_not_sent(cause))

    assert type(found) is error
    assert str(cause) in str(found)
    assert found.__cause__ is cause


def test_a_connection_that_was_not_made_without_a_reason_is_unreachable() -> None:
    assert type(error_for(NotSent())) is errors.Unreachable


def test_our_own_errors_pass_through() -> None:
    error = errors.ServerFull("full")

    assert error_for(error) is error
