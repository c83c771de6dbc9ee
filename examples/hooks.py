"""Functions called around listeners: `python -m examples.hooks [NAMESRV]`.

Here they measure how long a listener takes. Without a name server the program starts a cluster of its own, with some
messages. `examples.queues_come_and_go` has the functions that are called for queues.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from examples.servers import fill, servers
from rocketpy.sync import ConsumeFromWhere, MessageExt, PushConsumer

this_thread = threading.local()
took: list[float] = []
done = threading.Event()


def before(message: MessageExt) -> None:
    """Called in the thread of the listener, right before it."""
    this_thread.began = time.perf_counter()


def after(message: MessageExt, outcome: Any) -> None:
    """Called after it, in the same thread, with what it returned."""
    took.append(time.perf_counter() - this_thread.began)
    if len(took) == 10:
        done.set()


def main() -> None:
    """Consume ten messages."""
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv:
        fill(namesrv, "Measured", [f"message {number}" for number in range(10)])
        consumer = PushConsumer(
            "hooks",
            namesrv=namesrv,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            before_consume=before,
            after_consume=after,
        )
        consumer.subscribe("Measured", lambda message: time.sleep(0.001))
        with consumer:
            done.wait(60)
    print(f"{len(took)} calls of the listener, the longest took under {max(took) // 1 + 1:.0f} s")


if __name__ == "__main__":
    main()
