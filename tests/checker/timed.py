"""Messages with a delay or a time of delivery: I16.

They wait by the monotonic clock. What a broker has of an earlier run is due by the wall clock at its start, so a clock
that was set between changes when that is; everything else does not change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from tests.checker.groups import Delivery, Fault
from tests.checker.history import Outcome, Send, Violation

__all__ = ["Restart", "Timed", "WallClock", "check_timed"]

HELD_UP = 30.0
"""Seconds by which a try of a send may come to a broker after the producer has given it up."""
LATE = 1.1
"""Seconds by which a message may be late: one, and a tick of the scheduler."""
EARLY = 0.002
"""Wall clocks count whole milliseconds."""
SOON = 1.0
"""Seconds in which a broker has looked at the clock, after it has stored a message and after it has started."""


@attrs.define
class WallClock:
    """How far the wall clock was ahead of the clock of the run, in seconds.

    Attributes:
        steps: (since when, how far), in order.
    """

    steps: list[tuple[float, float]]

    def ahead(self, since: float, until: float) -> list[float]:
        """Every distance of a period."""
        found = [self.steps[0][1]]
        for at, distance in self.steps:
            if at <= since:
                found = [distance]
            elif at <= until:
                found.append(distance)
        return found


@attrs.frozen(kw_only=True)
class Restart:
    """A broker was away."""

    broker: str
    at: float
    back: float


@attrs.define(kw_only=True)
class Timed:
    """A message that is not to be delivered at once.

    Attributes:
        send: How it was sent. Its broker is the one that has acknowledged it.
        delay: Seconds; None if the message has a time of delivery.
        deliver_at: That time, in seconds of the wall clock.
        is_level: Whether it waits in the queue of a delay level. If such a message of an earlier run seems further away
            than its delay, the clock was set back, and it is delivered at once.
        recalled: When a broker acknowledged its recall; None if none has.
        is_unsure: Whether a recall was not answered.
        copies: How often each broker has stored it, as far as that is known.
    """

    send: Send
    delay: float | None = None
    deliver_at: float = 0.0
    is_level: bool = False
    recalled: float | None = None
    is_unsure: bool = False
    copies: Mapping[str, int] = attrs.field(factory=dict)

    def due(
        self, broker: str, restarts: Iterable[Restart], clock: WallClock, *, is_known: bool = True
    ) -> tuple[float, float]:
        """When it may be delivered by a broker, and when it has to be.

        Args:
            broker: The broker.
            restarts: When brokers were away.
            clock: The wall clock of all.
            is_known: Whether the broker had stored it when the send ended; otherwise a try may have come later.
        """
        began, ended = self.send.began, self.send.ended
        ahead = clock.ahead(began, ended + (SOON if is_known else HELD_UP))
        if self.delay is None:
            first, last = max(began, self.deliver_at - max(ahead)), max(ended, self.deliver_at - min(ahead))
            walls = self.deliver_at, self.deliver_at
        else:
            first, last = began + self.delay, ended + self.delay
            # Stored times never fall, so they may be those of the clock before it was set back.
            walls = began + min(ahead) + self.delay, ended + max(clock.ahead(0.0, ended + SOON)) + self.delay
        for restart in restarts:
            if restart.broker != broker or restart.back < began or restart.at > last:
                continue
            later = clock.ahead(restart.at, restart.back + SOON)
            low, high = walls[0] - max(later), walls[1] - min(later)
            if self.is_level and self.delay is not None and high - restart.at > self.delay:
                low = restart.at
            first, last = min(first, max(low, restart.at)), max(last, high, restart.back)
        return first, last


def check_timed(
    timed: Iterable[Timed],
    deliveries: Iterable[Delivery],
    restarts: Sequence[Restart],
    clock: WallClock,
    faults: Sequence[Fault],
) -> Iterator[Violation]:
    """I16: no message is early, a recalled one never comes, and without faults none is late."""
    found: dict[str, list[Delivery]] = {}
    for each in deliveries:
        found.setdefault(each.id, []).append(each)
    for message in timed:
        send, got = message.send, found.get(message.send.id, [])
        is_known = send.outcome is Outcome.OK and len(got) == 1
        for each in got:
            broker = each.queue[1]
            first, _ = message.due(broker, restarts, clock, is_known=is_known)
            if each.began < first - EARLY:
                yield Violation(
                    "I16", f"{send.id} was due at {first:.3f}, and {broker} delivered it at {each.began:.3f}"
                )
            recalled = message.recalled is not None and message.recalled < first and broker == send.broker
            if recalled and message.copies.get(broker, 1) == 1:
                at = f"{message.recalled:.3f}, and was delivered at {each.began:.3f}"
                yield Violation("I16", f"{send.id} was recalled at {at}")
        # Of a message that was stored twice, the recall takes back one copy; the other one may be a later one.
        if send.outcome is Outcome.OK and got and message.recalled is None and not message.is_unsure:
            _, last = message.due(send.broker, restarts, clock)
            last = _undisturbed(last, send.began, faults)
            if min(each.began for each in got) > last + LATE:
                yield Violation("I16", f"{send.id} had to come by {last:.3f}, and came at {got[0].began:.3f}")


def _undisturbed(moment: float, since: float, faults: Iterable[Fault]) -> float:
    """The moment, or the end of the faults during which it is."""
    for fault in sorted(faults, key=lambda each: each.at):
        if since <= fault.until and fault.at <= moment + LATE:
            moment = max(moment, fault.until)
    return moment
