"""Knows when a take is worth its trip, for all queues of a tree, without asking all the time.

A ``Post`` per server hears of changes (``wire/hearing.py``), keeps the time of the next scheduled
job, and makes one upkeep trip a second, which is also a look at every queue: so nothing depends on
having heard. Where the server announces nothing, posts look at growing pauses instead.
Nothing here claims a job, and nothing waits: ``wait.py`` and the tree's parent do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from redis.exceptions import AskError

from emq_django.errors import WireError
from emq_django.wire.client import Client
from emq_django.wire.hearing import ALL_KEYS
from emq_django.worker.cadence import Cadence, sweep
from emq_django.worker.failure import one_line
from emq_django.worker.log import logger
from emq_django.worker.pauses import Pauses
from emq_django.worker.rivals import Rivals

if TYPE_CHECKING:
    from emq_django.protocol.records import Outlook
    from emq_django.worker.beat import Beat
    from emq_django.worker.cancels import Cancels
    from emq_django.worker.link import Link
    from emq_django.worker.sources import Source

_FIRST_RETRY_S: Final = 0.1
_LONGEST_RETRY_S: Final = 2.0
_LOOKS_APART_S: Final = 0.005  # two looks at one queue, however often its schedule changes
# More announcements than this in a second say only that a queue is busy, and cost the server one
# message per tree each. Then looks replace them for a second.
_FLOOD: Final = 2_000
_FLOOD_LOOKS_S: Final = 0.01


class Ear(Client, Protocol):
    """What a post uses of a ``HearingClient``."""

    hears: bool
    refusal: str
    connects: int

    def fileno(self) -> int:
        """Return the socket to wait on, or -1."""

    def has_heard(self) -> bool:
        """Tell whether keys changed of which the socket shows nothing."""

    def heard(self) -> list[bytes]:
        """Return the keys that changed."""

    def listen_to(self, prefix: bytes) -> None:
        """Hear of one more key."""

    def be_deaf(self, deaf: bool) -> None:
        """Have announcements stopped for a while."""

    def close(self) -> None:
        """Close the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """How often a post goes to its server: for upkeep, and for looks where nothing is announced."""

    upkeep_s: float = 1.0
    poll_s: float = 0.1
    poll_cap_s: float = 0.5  # pauses between looks grow to this


class Post:
    """One server: what is heard of its queues, and what is due there. Without ear it only looks."""

    def __init__(
        self,
        link: Link,
        sources: Sequence[Source],
        ear: Ear | None = None,
        rhythm: Rhythm | None = None,
    ) -> None:
        rhythm = rhythm or Rhythm()
        self.link = link
        self.sources = tuple(sources)
        self.ear = ear
        self.misplaced = False  # a cluster node says that another one holds a queue by now
        # Drawn between 75 % and all of it: never more often than every upkeep_s.
        self._cadence = Cadence(rhythm.upkeep_s / 0.75)
        self._look_at_s = dict.fromkeys(self.sources, math.inf)
        self._due_at_s = dict.fromkeys(self.sources, math.inf)
        self._looked_s = -math.inf
        self._named = {key: source for source in self.sources for key in _hearable(source)}
        self._retries = Pauses(_FIRST_RETRY_S, _LONGEST_RETRY_S, spread=0.5)
        self._retry_at_s = 0.0
        self._polls = Pauses(rhythm.poll_s, max(rhythm.poll_s, rhythm.poll_cap_s), factor=1.5)
        self._poll_at_s = 0.0
        self._connects = 0
        self._mode: tuple[bool, str] | None = None
        self._flood = _Flood()

    def fileno(self) -> int:
        """Return the socket to wait on, or -1."""
        return -1 if self.ear is None else self.ear.fileno()

    def turn(
        self,
        now_s: float,
        rivals: Rivals,
        *,
        idle: bool,
        beat: Beat | None = None,
        cancels: Cancels | None = None,
    ) -> None:
        """Hear what there is and do what is due. ``idle``: somebody waits for work."""
        self._listen(now_s, rivals)
        if now_s < self._retry_at_s:
            return
        if self._cadence.is_due(now_s):
            self._visit(now_s, rivals, self.sources, reap=True, beat=beat, cancels=cancels)
        elif due := [source for source in self.sources if self._look_at_s[source] <= now_s]:
            self._visit(now_s, rivals, due)
        elif idle and self._looks_only() and self._poll_at_s <= now_s:
            self._visit(now_s, rivals, self.sources)

    def hears(self) -> bool:
        """Tell whether the server announces changes, and not too many of them."""
        return not self._looks_only()

    def answers(self) -> bool:
        """Tell whether the server answered when it was last asked."""
        return self._retry_at_s == 0.0

    def next_at_s(self, *, idle: bool) -> float:
        """Return when there is something to do, unless something is heard before."""
        if self.ear is not None and self.ear.has_heard():
            return -math.inf
        wanted = [self._cadence.next_at_s, *self._look_at_s.values()]
        if idle and self._looks_only():
            wanted.append(self._poll_at_s)
        return max(min(wanted), self._retry_at_s)

    def work_came(self) -> None:
        """Forget how long it was quiet: the next pause between looks is the shortest again."""
        self._polls.reset()
        self._poll_at_s = 0.0

    def sweep(self) -> bool:
        """Promote and reap now; tells whether there is something to take."""
        found = sweep(self.link, [source for source in self.sources if not source.rests()])
        return found.moved > 0 or any(one.claimable for one in found.outlooks.values())

    def close(self) -> None:
        """Close the connection that hears."""
        if self.ear is not None:
            self.ear.close()

    def _looks_only(self) -> bool:
        return self.ear is None or not self.ear.hears or self._flood.on

    def _listen(self, now_s: float, rivals: Rivals) -> None:
        if self.ear is None or self.ear.fileno() < 0:
            return
        try:
            heard = self.ear.heard()
            if self._flood.turned(now_s, len(heard)):
                self.ear.be_deaf(self._flood.on)
                heard.append(ALL_KEYS)
        except Exception:  # noqa: BLE001 - whatever it is, the next connection is a new one
            self._cadence.hurry()
            return
        # The time after reading: a take that was sent later has seen all of it, one that was sent
        # while it was read has not.
        now_s = time.monotonic()
        for key in dict.fromkeys(heard):
            self._hear(key, now_s, rivals)

    def _hear(self, key: bytes, now_s: float, rivals: Rivals) -> None:
        source = self._named.get(key)
        if source is None:
            self._look_at_s = dict.fromkeys(self.sources, now_s)
        elif key == source.options.keys.schedule:
            self._hear_of_schedule(source, now_s, rivals)
        else:
            rivals.changed(now_s, overheard=key in source.options.keys.waiting_keys)

    def _hear_of_schedule(self, source: Source, now_s: float, rivals: Rivals) -> None:
        """Look when something is due now, or leave that to the quick tree and a few others.

        What the rest know of due times is old by now; the next upkeep trip tells them anew.
        """
        if rivals.is_quick() or rivals.is_one_of_few():
            at_s = max(now_s + rivals.hold_back_s(), self._looked_s + _LOOKS_APART_S)
            self._look_at_s[source] = min(self._look_at_s[source], at_s)
        else:
            self._look_at_s[source] = math.inf

    def _visit(
        self,
        now_s: float,
        rivals: Rivals,
        sources: Sequence[Source],
        *,
        reap: bool = False,
        beat: Beat | None = None,
        cancels: Cancels | None = None,
    ) -> None:
        """Make one trip: promote where it is time, reap if asked, and look."""
        promote = reap or any(self._due_at_s[source] <= now_s for source in sources)
        self._looked_s = now_s
        found = sweep(self.link, sources, reap=reap, promote=promote, beat=beat, cancels=cancels)
        now_s = time.monotonic()
        if found.error is not None:
            self.misplaced = isinstance(found.error.__cause__, AskError)
            self._retry_at_s = now_s + self._retries.next_s()
            self._cadence.hurry()
            return
        self._retries.reset()
        self._retry_at_s = 0.0
        self._poll_at_s = now_s + self._polls.next_s()
        if self._flood.on:
            self._poll_at_s = now_s + _FLOOD_LOOKS_S
        if found.more:
            self._cadence.hurry()
        if len(found.outlooks) == len(self.sources):
            trees = max(outlook.trees for outlook in found.outlooks.values())
            rivals.others = max(trees - 1, 0)
        for source in sources:
            self._note(source, found.outlooks.get(source), now_s, rivals)
        self._note_connection(now_s)

    def _note(self, source: Source, outlook: Outlook | None, now_s: float, rivals: Rivals) -> None:
        """Plan the next look at one queue by what the last one showed."""
        self._look_at_s[source] = self._due_at_s[source] = math.inf
        if outlook is None:
            return
        if outlook.claimable:
            self._polls.reset()
            rivals.seen(now_s)
        if outlook.next_due_ms is not None:
            due_s = now_s + max(outlook.next_due_ms - outlook.now_ms, 0) / 1_000
            self._due_at_s[source] = due_s
            # Every tree keeps this time; the one that led before need not hold back.
            self._look_at_s[source] = due_s + rivals.hold_back_s()
        if outlook.wait_ms > 0:
            at_s = now_s + outlook.wait_ms / 1_000
            self._look_at_s[source] = min(self._look_at_s[source], at_s)
        if outlook.held_back and self.ear is not None and self.ear.hears:
            try:
                self.ear.listen_to(source.options.keys.active)
            except Exception:  # noqa: BLE001 - the next upkeep trip says what is wrong
                self._cadence.hurry()

    def _note_connection(self, now_s: float) -> None:
        """Look again after a reconnect in the middle of a visit, and say how this post waits."""
        if self.ear is None:
            return
        if self.ear.connects != self._connects:
            self._connects = self.ear.connects
            self._look_at_s = dict.fromkeys(self.sources, now_s)
        mode = (self.ear.hears, self.ear.refusal)
        if mode != self._mode:
            self._mode = mode
            if self.link.trouble.told:
                return
            if self.ear.hears:
                logger.info(
                    "server %s tells this worker of new jobs as they come",
                    self.link.trouble.address,
                )
            else:
                logger.warning(
                    "server %s can't tell this worker of new jobs, which it looks for again and"
                    " again: CLIENT TRACKING was refused (%s)",
                    self.link.trouble.address, one_line(self.ear.refusal),
                )  # fmt: skip


class _Flood:
    """Whether more is announced than is worth hearing."""

    def __init__(self) -> None:
        self.on = False
        self._since_s = 0.0
        self._heard = 0

    def turned(self, now_s: float, heard: int) -> bool:
        """Count what was heard; True when ``on`` has changed."""
        self._heard += heard
        was = self.on
        if now_s - self._since_s >= 1.0:
            self._since_s, self._heard, self.on = now_s, 0, False
        elif self._heard > _FLOOD:
            self._since_s, self._heard, self.on = now_s, 0, True
        return self.on != was


class Watch:
    """All posts of a tree. ``make`` finds the servers, again when one has lost its queues."""

    def __init__(
        self,
        make: Callable[[], Sequence[Post]],
        clock: Callable[[], float] = time.monotonic,
        beat: Beat | None = None,
        cancels: Cancels | None = None,
    ) -> None:
        self.rivals = Rivals()
        self.posts: Sequence[Post] = ()
        self._beat = beat
        self._cancels = cancels
        self._make = make
        self._clock = clock
        self._make_at_s = 0.0

    def turn(self, *, idle: bool) -> None:
        """Hear what there is and do what is due. ``idle``: somebody waits for work."""
        now_s = self._clock()
        if not self.posts and self._make_at_s <= now_s:
            self._find_servers(now_s)
        for post in self.posts:
            post.turn(now_s, self.rivals, idle=idle, beat=self._beat, cancels=self._cancels)
        if any(post.misplaced for post in self.posts):
            self.close()

    def sweep(self) -> bool:
        """Promote and reap now; tells whether there is something to take."""
        if not self.posts:
            self._find_servers(self._clock())
        found = [post.sweep() for post in self.posts]
        return any(found)

    def hears(self) -> bool:
        """Tell whether all servers answer, and announce changes."""
        return bool(self.posts) and all(post.hears() and post.answers() for post in self.posts)

    def wants_take(self) -> bool:
        """Tell whether somebody should go and take now."""
        return self.rivals.ask_at_s() <= self._clock()

    def next_in_s(self, *, idle: bool) -> float:
        """Return for how long there is nothing to do, unless something is heard before."""
        at_s = [post.next_at_s(idle=idle) for post in self.posts] or [self._make_at_s]
        if idle:
            at_s.append(self.rivals.ask_at_s())
        return max(min(at_s) - self._clock(), 0.0)

    def filenos(self) -> list[int]:
        """Return the sockets to wait on."""
        return [number for post in self.posts if (number := post.fileno()) >= 0]

    def link_of(self, source: Source) -> Link | None:
        """Return the link to the server of a queue, None while it is not found."""
        return next((post.link for post in self.posts if source in post.sources), None)

    def work_came(self) -> None:
        """Note that a take brought something."""
        self.rivals.won(self._clock())
        for post in self.posts:
            post.work_came()

    def close(self) -> None:
        """Close the connections that hear; the next turn finds the servers again."""
        for post in self.posts:
            post.close()
        self.posts = ()

    def end(self) -> None:
        """Take the tree off the list of workers, then close."""
        if self._beat is not None:
            self._beat.end(post.sources[0].link for post in self.posts if post.answers())
        self.close()

    def _find_servers(self, now_s: float) -> None:
        try:
            self.posts = tuple(self._make())
        except WireError as exc:
            self._make_at_s = now_s + _LONGEST_RETRY_S
            logger.error("the servers can't be found: %s", one_line(str(exc)))


def _hearable(source: Source) -> tuple[bytes, ...]:
    keys = source.options.keys
    return (*keys.claimable_keys, keys.active)
