"""One of many producers whose ids collide: `python -m tests.stress.minting QUEUE NAME COUNT`.

All of them mint as the same node and start each ms in the same few places. Says "ready"
and waits for a line on stdin, so that they begin together. Says how many ids it minted and which
jobs it put in.
"""

from __future__ import annotations

import json
import sys
from random import Random

import django

from emq_django import api
from emq_django.protocol import ids
from emq_django.protocol.records import Verdict

START_BITS = 6


def main(queue: str, name: str, count: int) -> None:
    django.setup()
    dice = Random(name)
    ids.mint._given_node = 0
    ids.mint._given_bits = lambda bits: dice.getrandbits(min(bits, START_BITS))
    ids.mint.reset()
    minted = 0
    mint_one = ids.mint.one

    def counted(namespace: str = ids.JOB) -> str:
        nonlocal minted
        minted += 1
        return mint_one(namespace)

    ids.mint.one = counted  # type: ignore[method-assign]
    print("ready", flush=True)  # noqa: T201 - to the test, which lets all begin at once
    sys.stdin.readline()
    receipts = [api.enqueue(queue, f"{name}:{number}".encode()) for number in range(count)]
    assert {receipt.verdict for receipt in receipts} == {Verdict.ENQUEUED}
    json.dump({"minted": minted, "ids": [receipt.id for receipt in receipts]}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
