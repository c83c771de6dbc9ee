"""The book: what was begun, how it ended, and what was delivered. Any thread writes into it."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.checker import Delivery, Group

UNDER_WAY, ACKNOWLEDGED, FAILED = "under way", "acknowledged", "failed"


@dataclass
class Sent:
    """One message.

    Attributes:
        body: says which it is.
        surface: where it was sent.
        key: its sharding key; messages of one key are in the book in the order in which they were sent.
        state: what became of it.
    """

    body: str
    surface: str
    key: str | None
    state: str = UNDER_WAY
    error: str = ""


@dataclass
class Book:
    """Everything that a run shows."""

    sent: list[Sent] = field(default_factory=list)
    delivered: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The bodies that each group got."""
    consumed: dict[str, Group] = field(default_factory=lambda: defaultdict(Group))
    """How each group got them, for the checker of all tests."""
    restarts: list[tuple[float, str]] = field(default_factory=list)
    """(time, broker name) of each start of a broker after the first."""
    deliveries: Counter[str] = field(default_factory=Counter)
    late: list[str] = field(default_factory=list)
    """Calls that did not return in time."""
    slowest: dict[str, float] = field(default_factory=dict)
    """Seconds of the longest call of each kind."""
    calls: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    """The kinds of error that calls ended with."""
    strange: list[str] = field(default_factory=list)
    """Errors that a user should not see, and what came out where nobody listens."""
    last_ack: dict[str, float] = field(default_factory=dict)
    """When each surface had its last acknowledgement."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, bodies: Sequence[str], surface: str, key: str | None = None) -> list[Sent]:
        """Messages are about to be sent, in this order."""
        made = [Sent(body, surface, key) for body in bodies]
        with self._lock:
            self.sent += made
        return made

    def acknowledge(self, messages: Sequence[Sent]) -> None:
        """A broker has them."""
        with self._lock:
            for message in messages:
                message.state = ACKNOWLEDGED
                self.last_ack[message.surface] = time.monotonic()

    def fail(self, messages: Sequence[Sent], error: BaseException) -> None:
        """Whether they are stored is unknown, or they are not."""
        with self._lock:
            self.errors[type(error).__name__] += len(messages)
            for message in messages:
                message.state, message.error = FAILED, repr(error)

    def deliver(self, group: str, body: str) -> None:
        """A listener has got it."""
        with self._lock:
            self.delivered[group].add(body)
            self.deliveries[group] += 1

    @contextmanager
    def delivering(self, group: str, message: Any) -> Iterator[None]:
        """Record that a listener, or a program that polls, is processing a message."""
        self.deliver(group, message.body.decode())
        began, ended = time.monotonic(), None
        try:
            yield
            ended = time.monotonic()
        finally:
            line = message.topic, message.broker_name, message.queue_id
            done = Delivery(
                consumer=group,
                id=message.body.decode(),
                queue=line,
                offset=message.queue_offset,
                began=began,
                ended=ended,
                succeeded=ended is not None,
            )
            with self._lock:
                self.consumed[group].deliveries.append(done)

    @contextmanager
    def timed(self, what: str, within: float) -> Iterator[None]:
        """A call that has to return in so many seconds."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.note_call(what, time.monotonic() - began, within)

    def note_call(self, what: str, took: float, within: float) -> None:
        """A call took so many seconds, and had so many."""
        with self._lock:
            self.calls[what] += 1
            self.slowest[what] = max(took, self.slowest.get(what, 0.0))
            if took > within:
                self.late.append(f"{what} took {took:.1f} s, and had {within:g}")

    def note_strange(self, text: str) -> None:
        """Something that should not be."""
        with self._lock:
            self.strange.append(text)

    def count(self, state: str) -> int:
        """How many messages are in a state."""
        return sum(message.state == state for message in tuple(self.sent))

    def acknowledged(self) -> set[str]:
        """The bodies of those that are."""
        return {message.body for message in tuple(self.sent) if message.state == ACKNOWLEDGED}
