"""When a connection is given up: requests that ran out, a frame that never ends, nothing moving, a peer that is dead.

Judged only when an alarm rings, from counters that are kept anyway. Plays the part of IdleStateHandler, of
scanResponseTable and of closing a socket on timeout, which here takes more than one slow answer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rocketpy.errors import ConnectionLostError, RemoteProtocolError, RequestTimeoutError, RocketMQError

if TYPE_CHECKING:
    from rocketpy.remoting.inbound import Inbound
    from rocketpy.remoting.link import Link

__all__ = ["Liveness"]

_LOOKS = 4
_QUIET_TURNS = 2
"""Turns of the loop in which nothing came that could still be read."""
_MOST_TURNS = 500
"""Turns after which a request runs out whatever else comes in."""


class Liveness:
    """The clocks of one connection.

    Attributes:
        is_silent: whether the peer was found to be silent, and perhaps has not got what was sent.
    """

    def __init__(self, link: Link, inbound: Inbound) -> None:
        self._address = link.address
        self._limits = link.limits
        self._inbound = inbound
        self._transport = link.transport
        self._in_flight = link.in_flight
        self._sent_before = 0
        self._last_sent = inbound.last_received
        self._silent_since: float | None = None
        self.is_silent = False
        self._quiet_turns = self._turns = 0
        self._taken_before = -1

    def judge(self, now: float) -> RocketMQError | None:
        """Fail the requests that are due, and say why the connection must end, if it must."""
        if self._in_flight.next_deadline() > now:
            ran_out = 0
        elif self._may_be_there():
            return None
        else:
            ran_out = self._in_flight.sweep(now, self._ran_out)
        self._note_silence(ran_out, now)
        if now >= self._inbound.frame_due:
            return RemoteProtocolError(
                f"{self._address} began a frame and did not complete it within {self._limits.frame_timeout:g} s"
            )
        if now >= self._silence_due():
            self.is_silent = True
            return self._lost(f"sent nothing for {self._limits.silence_timeout:g} s after a request ran out")
        if now >= self._idle_due(now):
            return self._lost(f"was idle for {self._limits.idle_timeout:g} s")
        return None

    def _may_be_there(self) -> bool:
        """Whether answers to what is due may have come that nobody has read.

        The loop may have been kept from turning, for longer than an answer took. So the reader gets turns before
        anything runs out, for as long as it finds something.
        """
        taken = self._inbound.taken
        quiet = self._quiet_turns + 1 if taken == self._taken_before else 0
        if quiet >= _QUIET_TURNS or self._turns >= _MOST_TURNS:
            self._quiet_turns = self._turns = 0
            self._taken_before = -1
            return False
        self._quiet_turns, self._taken_before = quiet, taken
        self._turns += 1
        return True

    def next_due(self, now: float) -> float:
        """When to judge again."""
        return min(self._in_flight.next_deadline(), self._inbound.frame_due, self._silence_due(), self._idle_check(now))

    def _note_silence(self, ran_out: int, now: float) -> None:
        """The first request that runs out starts the clock, any byte stops it."""
        if self._silent_since is not None and self._inbound.last_received > self._silent_since:
            self._silent_since = None
        if ran_out and self._silent_since is None:
            self._silent_since = now

    def _silence_due(self) -> float:
        if self._silent_since is None or self._limits.silence_timeout is None:
            return math.inf
        return self._silent_since + self._limits.silence_timeout

    def note_received(self) -> None:
        """What was sent up to a byte that comes in is older than that byte."""
        self._sent_before = self._transport.sent

    def _idle_due(self, now: float) -> float:
        """When the connection will have been idle for long enough. Requests on their way keep it alive."""
        if self._limits.idle_timeout is None:
            return math.inf
        if self._transport.sent != self._sent_before:
            self._sent_before, self._last_sent = self._transport.sent, now
        busy = len(self._in_flight) or self._inbound.parked
        last = now if busy else max(self._inbound.last_received, self._last_sent)
        return last + self._limits.idle_timeout

    def _idle_check(self, now: float) -> float:
        """When to look again. Sends leave no time behind, only a count: looking often bounds how late that is seen."""
        if self._limits.idle_timeout is None:
            return math.inf
        return min(self._idle_due(now), now + self._limits.idle_timeout / _LOOKS)

    def _ran_out(self) -> RequestTimeoutError:
        return RequestTimeoutError(
            f"no answer from {self._address} in time; the request may or may not have been carried out: check before"
            " you repeat it, or allow more time",
            address=self._address,
        )

    def _lost(self, what: str) -> ConnectionLostError:
        return ConnectionLostError(f"{self._address} {what}: the connection was given up", address=self._address)
