"""Functions called when queues come and go: `python -m examples.queues_come_and_go [NAMESRV]`.

Here they keep a state for each queue that a member has. Without a name server the program starts a cluster of its own,
with some messages.
"""

from __future__ import annotations

import sys
import threading

from examples.servers import fill, servers
from rocketpy.sync import ConsumeFromWhere, MessageExt, MessageQueue, PushConsumer

counts: dict[MessageQueue, int] = {}
done = threading.Event()


def on_assigned(queues: tuple[MessageQueue, ...]) -> None:
    """Called before anything is pulled from these queues."""
    counts.update(dict.fromkeys(queues, 0))
    print(f"got {len(queues)} queues")


def on_revoked(queues: tuple[MessageQueue, ...]) -> None:
    """Called before these queues go; the consumer waits for it."""
    print(f"gave up {len(queues)} queues with {sum(counts.pop(queue) for queue in queues)} messages")


def listener(message: MessageExt) -> None:
    counts[message.queue] += 1
    if sum(counts.values()) == 10:
        done.set()


def main() -> None:
    """Consume ten messages."""
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv:
        fill(namesrv, "Counted", [f"message {number}" for number in range(10)])
        consumer = PushConsumer(
            "counters",
            namesrv=namesrv,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            consume_thread_max=1,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
        )
        consumer.subscribe("Counted", listener)
        with consumer:
            done.wait(60)


if __name__ == "__main__":
    main()
