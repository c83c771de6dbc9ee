"""Functions called around listeners, and when queues come and go: `python -m examples.hooks [NAMESRV]`.

Here they measure how long a listener takes, and keep a state for each queue that a member has. Without a name server
the program starts a cluster of its own, with some messages.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from examples.servers import fill, servers
from rocketpy.sync import ConsumeFromWhere, MessageExt, MessageQueue, PushConsumer


class Bookkeeping:
    """The functions, and what they record; they are called in threads."""

    def __init__(self, wanted: int) -> None:
        self.counts: dict[MessageQueue, int] = {}
        self.took: list[float] = []
        self.done = threading.Event()
        self._began = threading.local()
        self._wanted = wanted

    def on_assigned(self, queues: tuple[MessageQueue, ...]) -> None:
        """Called before anything is pulled from these queues."""
        self.counts |= dict.fromkeys(queues, 0)
        print(f"got {len(queues)} queues")

    def on_revoked(self, queues: tuple[MessageQueue, ...]) -> None:
        """Called before these queues go; the consumer waits for it."""
        print(f"gave up {len(queues)} queues with {sum(self.counts.pop(queue) for queue in queues)} messages")

    def before(self, message: MessageExt) -> None:
        """Called in the thread of the listener, right before it."""
        self._began.at = time.perf_counter()

    def after(self, message: MessageExt, outcome: Any) -> None:
        """Called after it, in the same thread, with what it returned."""
        self.took.append(time.perf_counter() - self._began.at)
        if len(self.took) == self._wanted:
            self.done.set()

    def listener(self, message: MessageExt) -> None:
        self.counts[message.queue] += 1


def main() -> None:
    """Consume ten messages."""
    book = Bookkeeping(10)
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv:
        fill(namesrv, "Measured", [f"message {number}" for number in range(10)])
        consumer = PushConsumer(
            "hooks",
            namesrv=namesrv,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            consume_thread_max=1,
            before_consume=book.before,
            after_consume=book.after,
            on_assigned=book.on_assigned,
            on_revoked=book.on_revoked,
        )
        consumer.subscribe("Measured", book.listener)
        with consumer:
            book.done.wait(60)
    print(f"{len(book.took)} calls of the listener, the longest took under {max(book.took) // 1 + 1:.0f} s")


if __name__ == "__main__":
    main()
