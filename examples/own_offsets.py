"""Store offsets and results in one database, so each message counts exactly once: `python -m examples.own_offsets`.

A listener adds what it gets to a sum, and writes down in the same transaction which messages the sum has. A copy that
comes after a crash is known by that. Without a name server as an argument the program starts a cluster of its own.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Mapping

from examples.servers import fill, servers
from rocketpy.sync import ConsumeFromWhere, MessageExt, MessageQueue, PushConsumer

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)  # each statement is a transaction
database.execute("CREATE TABLE totals (queue PRIMARY KEY, next, sum)")


class Ledger:
    """An offset store: the offset up to which the sum includes each queue."""

    def read(self, queue: MessageQueue) -> int | None:
        found = database.execute("SELECT next FROM totals WHERE queue = ?", [str(queue)]).fetchone()
        return found[0] if found else None

    def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Nothing to do: the listener has already written them."""


def add(message: MessageExt) -> None:
    """The listener. It adds one message of a queue after another, and no message that the sum already has."""
    row = (str(message.queue), message.queue_offset + 1, int(message.body))
    again = "DO UPDATE SET next = excluded.next, sum = sum + excluded.sum WHERE next < excluded.next"
    database.execute(f"INSERT INTO totals VALUES (?, ?, ?) ON CONFLICT (queue) {again}", row)


def consume(namesrv: str, until: int) -> int:
    """Consume in order, so that one offset for each queue is all there is to remember."""
    consumer = PushConsumer("ledger", namesrv=namesrv, orderly=True, offset_store=Ledger(), consume_from_where=FIRST)
    consumer.subscribe("Amounts", add)
    with consumer:
        while (total := database.execute("SELECT sum(sum) FROM totals").fetchone()[0] or 0) < until:
            time.sleep(0.05)
    return int(total)


def main() -> None:
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv:
        fill(namesrv, "Amounts", [str(amount) for amount in range(1, 101)])
        consume(namesrv, until=100)
        print("the first consumer has ended; the next one continues where the ledger says")
        print("sum:", consume(namesrv, until=5050))


if __name__ == "__main__":
    main()
