"""Store offsets and results in one database, so each message counts exactly once: `python -m examples.own_offsets`.

A listener adds what it gets to a sum, and writes down in the same transaction which messages the sum has. A copy that
comes after a crash is known by that. Without a name server as an argument the program starts a cluster of its own.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Mapping

from examples.servers import fill, servers
from rocketpy.sync import ConsumeFromWhere, MessageExt, MessageQueue, PushConsumer

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class Ledger:
    """A sum, and the offset up to which it includes each queue. The store is `read` and `write`, the listener `add`."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._lock = threading.Lock()
        with self._connection:
            self._connection.execute("create table if not exists totals (queue primary key, next, sum)")

    def read(self, queue: MessageQueue) -> int | None:
        return self._row(queue)[0]

    def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Nothing to do: the listener has already written them."""

    def add(self, message: MessageExt) -> None:
        with self._lock, self._connection:
            following, total = self._row(message.queue)
            if following is not None and message.queue_offset < following:
                return  # a duplicate
            row = (str(message.queue), message.queue_offset + 1, total + int(message.body))
            self._connection.execute("insert or replace into totals values (?, ?, ?)", row)

    def total(self) -> int:
        with self._lock:
            return self._connection.execute("select coalesce(sum(sum), 0) from totals").fetchone()[0] or 0

    def _row(self, queue: MessageQueue) -> tuple[int | None, int]:
        found = self._connection.execute("select next, sum from totals where queue = ?", [str(queue)]).fetchone()
        return found or (None, 0)


def consume(namesrv: str, ledger: Ledger, until: int) -> None:
    """Consume in order, so that one offset for each queue is all there is to remember."""
    reached = threading.Event()

    def listener(message: MessageExt) -> None:
        ledger.add(message)
        if ledger.total() >= until:
            reached.set()

    consumer = PushConsumer("ledger", namesrv=namesrv, orderly=True, offset_store=ledger, consume_from_where=FIRST)
    consumer.subscribe("Amounts", listener)
    with consumer:
        if ledger.total() < until:  # the first consumer may have added everything before it ended
            reached.wait(60)


def main() -> None:
    """Add up a hundred amounts with two consumers, one after the other."""
    ledger = Ledger(":memory:")
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv:
        fill(namesrv, "Amounts", [str(amount) for amount in range(1, 101)])
        consume(namesrv, ledger, until=100)
        print("the first consumer has ended; the next one continues where the ledger says")
        consume(namesrv, ledger, until=5050)
    print("sum:", ledger.total())


if __name__ == "__main__":
    main()
