"""What was seen during a kill loop: every send and its outcome, every delivery, every fault. Only remembers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import trio


class Send(NamedTuple):
    """The outcome of a send: `ok`, `fail` (it never left) or `info` (nobody knows)."""

    name: str
    kind: str
    began: float
    ended: float
    queue_id: int = -1
    offset: int = -1
    message_id: str = ""
    offset_message_id: str = ""
    reason: str = ""


class Delivery(NamedTuple):
    """A listener was called."""

    name: str
    at: float
    group: str
    consumer: str
    queue_id: int
    offset: int
    message_id: str
    whole: bool


class Fault(NamedTuple):
    """Something was done to a process, or one joined: what makes others begin again."""

    kind: str
    at: float
    target: str


class History:
    """Everything in the order in which it was read.

    Attributes:
        acked: How many sends were acknowledged.
        last_ack: When each lane had its last acknowledgement, ms.
        ended: When listeners of groups in order had done, ms, by the number of the delivery.
        transactions: What is known of each half message: `half` (under way), `taken`, `unsent` or `unknown`.
        asked: How often producers were asked about each.
    """

    def __init__(self) -> None:
        self.sends: list[Send] = []
        self.deliveries: list[Delivery] = []
        self.faults: list[Fault] = []
        self.acked = 0
        self.last_ack: dict[str, float] = {}
        self.ended: dict[int, float] = {}
        self.under_way: dict[str, float] = {}
        self.transactions: dict[str, str] = {}
        self.asked: Counter[str] = Counter()
        self._begun: dict[tuple[str, str, str, str], int] = {}
        self._watchers: list[Callable[[], None]] = []

    def note_send(self, words: list[str]) -> None:
        """Take in a line of a producer."""
        kind, name, at = words[0], words[1], float(words[2])
        if kind == "send":
            self.under_way[name] = at
            return
        began = self.under_way.pop(name)
        if kind == "ok":
            self.acked += 1
            self.last_ack[name.rpartition("-")[0]] = at
            self.sends.append(Send(name, kind, began, at, int(words[3]), int(words[4]), words[5], words[6]))
        else:
            self.sends.append(Send(name, kind, began, at, reason=words[3]))
        self._wake()

    def note_transaction(self, words: list[str]) -> None:
        """Take in a line of a producer of transactions."""
        kind, name = words[:2]
        if kind == "asked":
            self.asked[name] += 1
        else:
            self.transactions[name] = kind
        self._wake()

    def note_delivery(self, consumer: str, words: list[str]) -> None:
        """Take in a line of a consumer."""
        kind, name, at, group, queue_id, offset, message_id = words
        self._begun[consumer, group, queue_id, offset] = len(self.deliveries)
        self.deliveries.append(
            Delivery(name, float(at), group, consumer, int(queue_id), int(offset), message_id, kind == "got")
        )
        self._wake()

    def note_end(self, consumer: str, words: list[str]) -> None:
        """Take in a line of a consumer whose listener has done."""
        _, _, at, group, queue_id, offset = words
        self.ended[self._begun.pop((consumer, group, queue_id, offset))] = float(at)

    def note_fault(self, kind: str, at: float, target: str) -> None:
        """Remember what was done."""
        self.faults.append(Fault(kind, at, target))

    def give_up(self, producer: str, at: float) -> None:
        """The producer is dead: what became of its sends nobody knows."""
        for name in [name for name in self.under_way if name.startswith(f"{producer}.")]:
            self.sends.append(Send(name, "info", self.under_way.pop(name), at, reason="killed"))

    def first_ack(self, since: int, after: float) -> float | None:
        """When a send was acknowledged first.

        Args:
            since: How many outcomes were known then.
            after: Not before, ms.
        """
        return min(
            (send.ended for send in self.sends[since:] if send.kind == "ok" and send.ended > after), default=None
        )

    # --- waiting ---------------------------------------------------------------------------------------

    def _wake(self) -> None:
        for watcher in self._watchers:
            watcher()

    async def wait_done(self, left: Callable[[], int], patience: float) -> bool:
        """Whether nothing is left in the end; a slow machine may take its time, as long as less and less is left.

        Args:
            left: Says how much.
            patience: Seconds within which it has to become less.
        """
        while (before := left()) > 0:
            if not await self.wait_for(lambda before=before: left() < before, patience):
                return False
        return True

    async def wait_for(self, ready: Callable[[], bool], timeout: float) -> bool:
        """Whether it becomes true in time; it is asked again after every event."""
        if ready():
            return True
        event = trio.Event()

        def look() -> None:
            if ready():
                event.set()

        self._watchers.append(look)
        try:
            with trio.move_on_after(timeout):
                await event.wait()
        finally:
            self._watchers.remove(look)
        return event.is_set()
