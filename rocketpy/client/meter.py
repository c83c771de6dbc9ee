"""SendMeter: counts the outcomes of a producer's sends, by topic and broker, on every surface.

An acknowledged send leaves two numbers, on the thread where it ended, by appending each to a list: that needs no lock
and may be interrupted by another append. They are added up when there are some hundred of them, when the next slice of
time begins, or for statistics. Failures are counted in the trio thread, which does all the work after a failure. Java
has no such class: its producer counts nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from rocketpy.histogram import Histogram, Latency, latency_of
from rocketpy.rates import Rate
from rocketpy.reprs import Short

if TYPE_CHECKING:
    from rocketpy.client.preparing.outgoing import Outgoing

__all__ = ["GATHERED", "Cell", "SendFigures", "SendMeter", "count_of"]

Number = TypeVar("Number", int, float)

GATHERED: Final = 512
"""The number of sends at which they are added up."""
_SLICE = 10.0
MOST_CELLS = 1024
"""The largest number of pairs of a topic and a broker with counters of their own; further pairs count in the total
only."""


@attrs.frozen(kw_only=True, repr=False)
class SendFigures(Short):
    """The outcomes of sends. Rates and latencies cover the last minute, counters the time since the producer was
    opened."""

    sent: int
    """Messages that a broker has acknowledged. Those of a batch count one by one."""
    sent_bytes: int
    """Bytes of the bodies of these messages as they were sent, compressed or as encoded batches."""
    one_way: int
    """Messages written by `send_oneway`, which has no acknowledgement."""
    failed: int
    """Messages whose send failed, after all its attempts. Sends that were cancelled are not counted, nor messages that
    were refused before the first attempt."""
    failed_tries: int
    """Attempts that failed. A send may have several."""
    retries: int
    """Attempts after the first one of a send."""
    sent_per_second: float
    """Acknowledged messages per second."""
    bytes_per_second: float
    """Bytes of acknowledged messages per second."""
    failed_per_second: float
    """Messages per second whose send failed."""
    retries_per_second: float
    """Retries per second."""
    latency: Latency
    """Seconds from the start of an attempt to its acknowledgement; a batch is one attempt."""


def count_of(outgoing: Outgoing) -> int:
    """How many messages a send has."""
    return outgoing.message_id.count(",") + 1 if outgoing.is_batch else 1


class Cell:
    """The counters of one topic at one broker.

    Any thread appends to the lists. It calls `drain` first if `ends` has come, or if a list has `GATHERED` numbers.

    Args:
        born: when the producer was opened, on the clock of its client.

    Attributes:
        ends: when the slice of time ends to which the numbers in the lists belong.
        seconds: the duration of the last attempt of each send that has ended well, if it was measured.
        sizes: bytes of the body of each send that has ended well, as sent.
        further: of each batch, the number of its messages without the first one.
        one_ways: of each one-way send, the number of its messages.
    """

    __slots__ = (
        "_bytes",
        "_draining",
        "_failed",
        "_histogram",
        "_messages",
        "_retries",
        "ends",
        "failed",
        "failed_tries",
        "further",
        "one_way",
        "one_ways",
        "retries",
        "seconds",
        "sent",
        "sent_bytes",
        "sizes",
    )

    def __init__(self, born: float) -> None:
        self.ends = _end_of_slice(born)
        self.seconds: list[float] = []
        self.sizes: list[int] = []
        self.further: list[int] = []
        self.one_ways: list[int] = []
        self.sent = self.sent_bytes = self.one_way = self.failed = self.failed_tries = self.retries = 0
        self._messages, self._bytes, self._failed, self._retries = (Rate(born) for _ in range(4))
        self._histogram = Histogram()
        self._draining = threading.Lock()

    def drain(self, now: float) -> None:
        """Add up the lists; what is appended from now on belongs to this time. Thread-safe.

        Does nothing while another thread adds them up.
        """
        if not self._draining.acquire(blocking=False):  # must not wait: a finalizer may have interrupted these lines
            return
        try:
            self._add_up(self.ends - _SLICE / 2)
            if now >= self.ends:
                self.ends = _end_of_slice(now)
        finally:
            self._draining.release()

    def _add_up(self, then: float) -> None:
        """Add up what was appended in the slice around this time."""
        seconds, sizes = _taken(self.seconds), _taken(self.sizes)
        messages, size = len(sizes) + sum(_taken(self.further)), sum(sizes)
        self.one_way += sum(_taken(self.one_ways))
        if messages:
            self.sent += messages
            self.sent_bytes += size
            self._messages.add(then, messages)
            self._bytes.add(then, size)
        self._histogram.add(then, seconds)

    def note_failed(self, now: float, messages: int) -> None:
        """Count messages whose send has failed. In the trio thread."""
        self.failed += messages
        self._failed.add(now, messages)

    def note_retry(self, now: float) -> None:
        """Count a retry. In the trio thread."""
        self.retries += 1
        self._retries.add(now, 1)

    @property
    def rates(self) -> tuple[Rate, Rate, Rate, Rate]:
        """The rates of messages, bytes, messages that failed, and retries."""
        return self._messages, self._bytes, self._failed, self._retries

    @property
    def histogram(self) -> Histogram:
        """The latencies of attempts."""
        return self._histogram


def _end_of_slice(now: float) -> float:
    return (now // _SLICE + 1) * _SLICE


def _taken(numbers: list[Number]) -> list[Number]:
    """Move what is in a list to a new one, while other threads append to it."""
    count = len(numbers)
    taken = numbers[:count]
    del numbers[:count]
    return taken


def _figures_of(cells: Iterable[Cell], now: float) -> SendFigures:
    """The sums of some cells."""
    cells = list(cells)
    for cell in cells:
        cell.drain(now)
    rates = [sum(each.minute(now).per_second for each in kind) for kind in zip(*(c.rates for c in cells), strict=True)]
    sent, size, failed, retries = rates or (0.0, 0.0, 0.0, 0.0)
    return SendFigures(
        sent=sum(cell.sent for cell in cells),
        sent_bytes=sum(cell.sent_bytes for cell in cells),
        one_way=sum(cell.one_way for cell in cells),
        failed=sum(cell.failed for cell in cells),
        failed_tries=sum(cell.failed_tries for cell in cells),
        retries=sum(cell.retries for cell in cells),
        sent_per_second=sent,
        bytes_per_second=size,
        failed_per_second=failed,
        retries_per_second=retries,
        latency=latency_of((cell.histogram for cell in cells), now),
    )


class SendMeter:
    """The counters of one producer.

    Args:
        clock: of its client, in seconds; from any thread once the producer is open.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._born = 0.0
        self._cells: dict[tuple[str, str], Cell] = {}
        self._rest = Cell(0.0)

    def open(self) -> None:
        """Start to count, when the producer is opened."""
        self._born = self._clock()
        self._cells = {}
        self._rest = Cell(self._born)

    def cell(self, topic: str, broker_name: str) -> Cell:
        """The counters of a topic at a broker, "" if no broker was known. Thread-safe."""
        found = self._cells.get((topic, broker_name))
        if found is None:
            if len(self._cells) >= MOST_CELLS:
                return self._rest
            found = self._cells.setdefault((topic, broker_name), Cell(self._born))
        return found

    def note_unmeasured(self, outgoing: Outgoing, broker_name: str) -> None:
        """Count a message that was stored, without the latency of its last attempt."""
        cell, now = self.cell(outgoing.message.topic, broker_name), self._clock()
        if now >= cell.ends or len(cell.sizes) >= GATHERED:
            cell.drain(now)
        cell.sizes.append(len(outgoing.body))

    def note_oneway(self, outgoing: Outgoing, broker_name: str) -> None:
        """Count a one-way message that was written. Thread-safe."""
        cell = self.cell(outgoing.message.topic, broker_name)
        if len(cell.one_ways) >= GATHERED:
            cell.drain(self._clock())
        cell.one_ways.append(count_of(outgoing))

    def note_failed_attempt(self, outgoing: Outgoing, broker_name: str) -> None:
        """Count an attempt that failed. In the trio thread."""
        self.cell(outgoing.message.topic, broker_name).failed_tries += 1

    def note_failed(self, outgoing: Outgoing, broker_name: str) -> None:
        """Count a send that failed. In the trio thread."""
        self.cell(outgoing.message.topic, broker_name).note_failed(self._clock(), count_of(outgoing))

    def note_retry(self, outgoing: Outgoing, broker_name: str) -> None:
        """Count a retry at this broker. In the trio thread."""
        self.cell(outgoing.message.topic, broker_name).note_retry(self._clock())

    # --- results ----------------------------------------------------------------------------------------

    def total(self) -> SendFigures:
        """All sends."""
        return _figures_of([*self._cells.copy().values(), self._rest], self._clock())

    def by_topic(self) -> dict[str, SendFigures]:
        """The sends of each topic."""
        return self._by(0)

    def by_broker(self) -> dict[str, SendFigures]:
        """The sends to each broker, by its name."""
        found = self._by(1)
        found.pop("", None)
        return found

    def _by(self, place: int) -> dict[str, SendFigures]:
        groups: dict[str, list[Cell]] = {}
        for key, cell in self._cells.copy().items():
            groups.setdefault(key[place], []).append(cell)
        now = self._clock()
        return {name: _figures_of(cells, now) for name, cells in sorted(groups.items())}
