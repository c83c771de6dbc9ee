"""An open-loop sender: a message is due every so often, whatever became of those before it.

The latency of a message runs from the moment it was due, so that a broker that stalls cannot hide it by making the
sender wait. What the sender itself was late is kept apart.
"""

from __future__ import annotations

import gc
import re
import select
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from benchmarks.frames import Wire, send_frame
from benchmarks.raw import count_good
from benchmarks.trouble import BenchmarkError

CONNECTIONS = 4
QUIET = 30.0
"""Seconds after which a silent broker is given up."""
LEAD = 0.05
_BASE = 1_000_000_000
"""Opaques have the same number of digits all, so that a frame is put together out of three pieces."""
_OPAQUE = re.compile(rb'"opaque":(\d+)')


@dataclass
class Latencies:
    """What became of every message, in the order they were due.

    Attributes:
        due: When, on this machine's monotonic clock, in seconds.
        latency: From then to the acknowledgement, in seconds.
        late: From then until the sender sent it.
    """

    due: array[float] = field(default_factory=lambda: array("d"))
    latency: array[float] = field(default_factory=lambda: array("d"))
    late: array[float] = field(default_factory=lambda: array("d"))

    def extend(self, other: Latencies) -> None:
        """Add what was measured later."""
        self.due.extend(other.due)
        self.latency.extend(other.latency)
        self.late.extend(other.late)

    def percentile(self, share: float) -> float:
        """The latency that so many messages do not exceed."""
        ordered = sorted(self.latency)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def above(self, seconds: float) -> int:
        """How many took longer."""
        return sum(latency > seconds for latency in self.latency)


def send_steadily(
    address: str, topics: Sequence[tuple[str, int]], body: bytes, *, rate: float, count: int
) -> Latencies:
    """Send so many messages at a steady rate, in turn to (topic, queue)s; return when all are answered."""
    pieces = [_pieces(topic, queue, body) for topic, queue in topics]
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(address)) for _ in range(CONNECTIONS)]
        for wire in wires:
            wire.ask(b"%b%d%b" % (pieces[0][0], _BASE, pieces[0][1]))
        stack.enter_context(_without_collections())
        return _Loop(wires, pieces, 1 / rate, count).run()


def _pieces(topic: str, queue: int, body: bytes) -> tuple[bytes, bytes]:
    head, _, tail = send_frame(topic, queue, body, opaque=_BASE).partition(b"%d" % _BASE)
    return head, tail


@contextmanager
def _without_collections() -> Iterator[None]:
    """No pauses of the sender's own."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Loop:
    """One run: sends what is due, takes the answers that are there, waits for whichever comes first."""

    def __init__(self, wires: Sequence[Wire], pieces: Sequence[tuple[bytes, bytes]], step: float, count: int) -> None:
        self._wires = {wire.socket: wire for wire in wires}
        self._turn = list(wires)
        self._pieces = pieces
        self._step = step
        self._count = count
        self._next = 0
        self._answered = 0
        self._start = time.perf_counter() + LEAD
        self._found = Latencies(
            array("d", [self._start + step * index for index in range(count)]),
            array("d", bytes(8 * count)),
            array("d", bytes(8 * count)),
        )

    def run(self) -> Latencies:
        """Until every message is answered."""
        sockets = list(self._wires)
        while self._answered < self._count:
            self._send_due()
            readable, _, _ = select.select(sockets, (), (), self._wait())
            if not readable and self._next == self._count:
                missing = self._count - self._answered
                raise BenchmarkError(f"the broker has not answered {missing} sends for {QUIET:g} s")
            for socket in readable:
                self._take(self._wires[socket].read())
        return self._found

    def _send_due(self) -> None:
        found, pieces, number = self._found, self._pieces, self._next
        now = time.perf_counter()
        while number < self._count and found.due[number] <= now:
            head, tail = pieces[number % len(pieces)]
            self._turn[number % CONNECTIONS].socket.sendall(b"%b%d%b" % (head, _BASE + number, tail))
            found.late[number] = now - found.due[number]
            number += 1
            now = time.perf_counter()
        self._next = number

    def _wait(self) -> float:
        """Seconds until the next message is due."""
        if self._next == self._count:
            return QUIET
        return max(0.0, self._found.due[self._next] - time.perf_counter())

    def _take(self, answers: list[bytes]) -> None:
        now, found = time.perf_counter(), self._found
        self._answered += count_good(answers)
        for answer in answers:
            opaque = _OPAQUE.search(answer)
            if opaque is None:
                raise BenchmarkError("an answer names no request")
            number = int(opaque[1]) - _BASE
            found.latency[number] = now - found.due[number]
