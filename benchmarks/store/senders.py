"""Raw senders: many that wait for their own answer each, over one connection or many, in one loop.

They share nothing with the packages they judge.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.budget import Budget, Meter, Tickets
from benchmarks.frames import Wire
from benchmarks.raw import count_good
from benchmarks.task import Outcome
from benchmarks.trouble import BenchmarkError

QUIET = 30.0
"""Seconds after which a silent broker is given up."""


def concurrent(
    address: str, frames: Sequence[bytes], budget: Budget, pid: int | None, *, connections: int = 1, window: int = 1
) -> Outcome:
    """Keep so many sends in flight on each connection, for a while: acknowledgements a second.

    Args:
        address: Of the broker.
        frames: What is sent, in turn.
        budget: How long, and how many.
        pid: Of the broker, for its CPU.
        connections: To it.
        window: In flight on each of them.
    """
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(address)) for _ in range(connections)]
        poll = stack.enter_context(select.epoll())
        by_descriptor = {wire.socket.fileno(): wire for wire in wires}
        for descriptor, wire in by_descriptor.items():
            poll.register(descriptor, select.EPOLLIN)
            wire.ask(frames[0])
        sending, meter = _Sending(frames, Tickets(budget)), Meter(pid)
        meter.start()
        for wire in wires:
            sending.send(wire, window)
        while sending.in_flight:
            ready = poll.poll(QUIET)
            if not ready:
                raise BenchmarkError(f"{address} has not answered {sending.in_flight} sends for {QUIET:g} s")
            for descriptor, _ in ready:
                wire = by_descriptor[descriptor]
                sending.send(wire, sending.answered(count_good(wire.read())))
        meter.stop()
    return Outcome.rate(sending.tickets.given, meter)


class _Sending:
    """What is under way over all connections."""

    def __init__(self, frames: Sequence[bytes], tickets: Tickets) -> None:
        self._frames = frames
        self._at = 0
        self.tickets = tickets
        self.in_flight = 0

    def send(self, wire: Wire, count: int) -> None:
        """So many more, while there is time."""
        count = self.tickets.take_up_to(count)
        if count:
            frames, at = self._frames, self._at
            self._at = (at + count) % len(frames)
            wire.socket.sendall(b"".join([frames[(at + index) % len(frames)] for index in range(count)]))
            self.in_flight += count

    def answered(self, count: int) -> int:
        """So many are done."""
        self.in_flight -= count
        return count
