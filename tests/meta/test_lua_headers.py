"""Each script's header tells the truth: about its name, keys, arguments, errors and clock.

`faults` finds what is wrong with one script; the second half of this file breaks a good header in
every way once and sees it found.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from emq_django import protocol
from emq_django.protocol import scripts
from emq_django.protocol.keyspace import queue
from emq_django.wire.replies import WORDS
from tests import samples, samples_operating
from tests.samples import SAMPLES

if TYPE_CHECKING:
    from emq_django.protocol.calls import Call

LUA = Path(scripts.__file__).parent / "lua"
Q = queue("q")

_LABEL = re.compile(r"^  (state|(?:KEYS|ARGV)\[\d+\+?\]|returns|errors|clock|source) +(\S.*)$")
_KEY = re.compile(r"(KEYS|ARGV)\[(\d+)(\+?)\]")
_DERIVED = re.compile(r"\b(?:base|KEYS\[\d\]) \.\. ")

# Commands that Redis 6.2 knows, on keys of one slot: a new one joins here after a look at both.
COMMANDS = frozenset(
    re.findall(
        r"\w+",
        """
        DEL EXISTS GET HDEL HEXISTS HGET HINCRBY HKEYS HLEN HMGET HRANDFIELD HSCAN HSET HSTRLEN
        LINDEX LLEN LMOVE LPOS LPUSH LRANGE LREM LTRIM PEXPIRE PTTL PUBLISH PUBSUB RENAME RPUSH SADD
        SCARD SET SISMEMBER SRANDMEMBER SREM SSCAN TIME TYPE UNLINK ZADD ZCARD ZCOUNT ZPOPMIN ZRANGE
        ZLEXCOUNT ZRANGEBYSCORE ZRANK ZREM ZREMRANGEBYRANK ZREVRANGE ZREVRANK ZSCAN ZSCORE
        """,
    )
)
WORDS_OF_COMMANDS = {
    "BYLEX",
    "COUNT",
    "LEFT",
    "LIMIT",
    "NUMSUB",
    "PX",
    "REV",
    "RIGHT",
    "WITHSCORES",
}
OTHER_CAPITALS = {"JOB", "WRONGTYPE"}
# unpack fails at 8,000 values: each of these has fewer, and why.
UNPACKS = {
    "unpack(ARGV)",  # the fields that one builder names
    "unpack(members)",  # two per pair of at most 1,000
    "unpack(probe)",  # a list in the script itself
    "unpack(place, 3)",  # a list in the script itself
}


@dataclass(frozen=True)
class Header:
    name: str
    labels: dict[str, str]

    def numbered(self, what: str) -> tuple[list[int], bool]:
        """Return the numbers of KEYS or ARGV, and whether the last one repeats."""
        found = [_KEY.fullmatch(label) for label in self.labels]
        mine = [match for match in found if match and match[1] == what]
        return [int(match[2]) for match in mine], bool(mine and mine[-1][3])


def split(text: str) -> tuple[Header, str]:
    """Return the header and the body; continued lines belong to the label above them."""
    comment, body = text.removeprefix("--[[ ").split(" ]]\n", 1)
    first, *lines = comment.splitlines()
    labels: dict[str, str] = {}
    label = ""
    for line in lines:
        if match := _LABEL.match(line):
            label = match[1]
            assert label not in labels, f"{label} comes twice"
            labels[label] = match[2]
        else:
            assert line.startswith("    "), f"what is {line!r}?"
            labels[label] += " " + line.strip()
    return Header(first.split(":")[0], labels), body


def faults(name: str, text: str, calls: list[Call[Any]]) -> list[str]:
    """Return what is wrong with a script and its header, given sample Calls of its builders."""
    header, body = split(text)
    found = [f"no line {label!r}" for label in ("state", "returns", "errors", "clock", "source")
             if label not in header.labels]  # fmt: skip
    if header.name != name:
        found.append(f"the header says {header.name!r}")
    for what in ("KEYS", "ARGV"):
        found += _numbering_faults(what, header, body, calls)
    raised = set(re.findall(r"error_reply\('(EMQ[A-Z]+)", body))
    named = set(re.findall(r"\bEMQ[A-Z]+", header.labels.get("errors", "")))
    if raised != named or (not named and header.labels.get("errors") != "none"):
        found.append(f"errors: the header names {named}, the body raises {raised}")
    if unknown := raised - WORDS.keys():
        found.append(f"errors: replies.WORDS does not know {unknown}")
    says_time = header.labels.get("clock", "").startswith("server TIME")
    if says_time != ("server_ms()" in body):
        found.append(f"clock: the header says {header.labels.get('clock')!r}")
    whole = scripts._expand(body, set())
    if _DERIVED.search(whole) and any(Q.base not in call.keys for call in calls):
        found.append("keys are derived and the root is not declared")
    return [*found, *_command_faults(whole)]


def _numbering_faults(what: str, header: Header, body: str, calls: list[Call[Any]]) -> list[str]:
    numbers, repeats = header.numbered(what)
    found = []
    if numbers != list(range(1, len(numbers) + 1)):
        found.append(f"{what}: the header numbers them {numbers}")
    used = {int(number) for number in re.findall(what + r"\[(\d+)\]", body)}
    found += [
        f"{what}[{number}] is in the header and not in the body"
        for number in numbers[: -1 if repeats else None]
        if number not in used
    ]
    if repeats and not re.search(rf"{what}\[[a-z]|{what}\b(?!\[)", body):
        found.append(f"{what}[{numbers[-1]}+] is in the header and the body has no loop over it")
    found += [
        f"{what}[{number}] is in the body and not in the header"
        for number in used
        if number > len(numbers) and not repeats
    ]
    for call in calls:
        sent = len(call.keys if what == "KEYS" else call.args)
        if sent != len(numbers) and not (repeats and sent >= len(numbers) - 1):
            found.append(f"{what}: {len(numbers)} in the header, a builder sends {sent}")
    return found


def _command_faults(whole: str) -> list[str]:
    code = re.sub(r"--[^\n]*", "", whole)
    capitals = set(re.findall(r"'([A-Z]{2,})'", code))
    found = [
        f"{word} is not on the list of commands of Redis 6.2 that scripts use"
        for word in capitals - COMMANDS - WORDS_OF_COMMANDS - OTHER_CAPITALS
    ]
    found += [
        f"{one}: is it bounded?" for one in set(re.findall(r"unpack\([^)]*\)", code)) - UNPACKS
    ]
    if re.search(r"\bloadstring\b|\bsetmetatable\b|^[a-z_]+ =", code, re.MULTILINE):
        found.append("a global is written")
    return found


def sample_calls(name: str) -> list[Call[Any]]:
    return [sample(Q) for sample in SAMPLES[name]]


def test_every_script_has_a_builder_and_every_builder_a_sample() -> None:
    assert set(SAMPLES) == set(scripts.names())
    for name in SAMPLES:
        assert {call.script.name for call in sample_calls(name)} == {name}
    source = inspect.getsource(samples) + inspect.getsource(samples_operating)
    assert [builder for builder in _builders() if builder not in source] == []


_BUILDER = re.compile(r"^def ([a-z]\w*)\((?:[^()]|\([^()]*\))*\) -> Call\[", re.MULTILINE)


def _builders() -> list[str]:
    """Return `module.function` of every public function of the protocol that makes a Call."""
    return [
        f"{path.stem}.{function}"
        for path in Path(protocol.__file__).parent.glob("*.py")
        for function in _BUILDER.findall(path.read_text("utf-8"))
    ]


@pytest.mark.parametrize("name", scripts.names())
def test_a_header_tells_the_truth(name: str) -> None:
    text = LUA.joinpath(f"{name}.lua").read_text("utf-8")

    assert faults(name, text, sample_calls(name)) == []


def test_error_classes_that_no_script_raises_are_not_on_the_list() -> None:
    texts = [path.read_text("utf-8") for path in LUA.rglob("*.lua")]
    raised = {word for text in texts for word in re.findall(r"error_reply\('(EMQ[A-Z]+)", text)}

    assert raised == {word for word in WORDS if word.startswith("EMQ")}


# --- Every lie is found ---------------------------------------------------------------------------

LIES = {
    "another name": ("--[[ retry:", "--[[ retries:", "the header says 'retries'"),
    "no clock": ("  clock    server TIME\n", "", "no line 'clock'"),
    "no clock after all": ("clock    server TIME", "clock    none", "clock: the header says"),
    "a key too few": (
        "  KEYS[5]  base      emq:{q}:, the root of the lane's keys and metrics:failed\n", "",
        "KEYS[5] is in the body and not in the header",
    ),
    "a gap": ("  KEYS[4]  row ", "  KEYS[6]  row ", "KEYS: the header numbers them"),
    "an unused key": ("redis.call('ZCARD', KEYS[3])", "", "KEYS[3] is in the header and not in"),
    "an unused argument": ("ARGV[5]", "''", "ARGV[5] is in the header and not"),
    "an argument more": (
        "  returns ", "  ARGV[8]  more      text\n  returns ", "ARGV: 8 in the header, a builder",
    ),
    "an error less": (" EMQARG\n", "\n", "errors: the header names"),
    "an error more": ("  errors   ", "  errors   EMQKIND ", "errors: the header names"),
    "an unknown error": ("'EMQSTALE job gone'", "'EMQNEW job gone'", "WORDS does not know"),
    "a command of a later server": ("'ZADD', KEYS[2]", "'ZMPOP', KEYS[2]", "ZMPOP is not on the"),
    "a look at every key": ("'ZADD', KEYS[2]", "'KEYS', KEYS[2]", "KEYS is not on the list"),
    "an unbounded unpack": ("'ZADD', KEYS[2]", "'ZADD', unpack(ids)", "unpack(ids): is it"),
    "a global": ("\nlocal delay =", "\ndelay =", "a global is written"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found(lie: str) -> None:
    old, new, fault = LIES[lie]
    text = LUA.joinpath("retry.lua").read_text("utf-8")
    assert old in text

    if lie == "an unused argument":
        header, body = text.split("]]")
        text = header + "]]" + body.replace(old, new)
    else:
        text = text.replace(old, new)

    found = faults("retry", text, sample_calls("retry"))

    assert any(fault in one for one in found), found


def test_a_root_that_is_not_declared_is_found() -> None:
    text = LUA.joinpath("retry.lua").read_text("utf-8")
    calls = [call._replace(keys=(*call.keys[:4], b"emq:{q}:x")) for call in sample_calls("retry")]

    assert faults("retry", text, calls) == ["keys are derived and the root is not declared"]
