"""Read a topic again from a given time on, without disturbing its groups: `python -m examples.assign [NAMESRV TOPIC]`.

The queues are assigned, so no other member takes any of them, and nothing is committed. Without a name server the
program starts a cluster of its own, with some messages.
"""

from __future__ import annotations

import sys
import time

from examples.servers import fill, servers
from rocketpy.sync import LitePullConsumer, MessageExt


def read_since(namesrv: str, topic: str, timestamp: int) -> list[MessageExt]:
    """Return the messages stored at that time (ms since 1970) or later, up to the newest one now."""
    consumer = LitePullConsumer("reading-again", namesrv=namesrv, auto_commit=False)
    consumer.assign(consumer.fetch_message_queues(topic))
    found: list[MessageExt] = []
    with consumer:
        consumer.wait_assigned(30)
        ends = {queue: consumer.end_offset(queue) for queue in consumer.assignment}
        for queue in ends:
            consumer.seek_to_timestamp(queue, timestamp)
        while any(consumer.position(queue) < end for queue, end in ends.items()):
            found += consumer.poll(100, timeout=1)
    return [message for message in found if message.queue_offset < ends[message.queue]]


def main() -> None:
    """Read what was stored within the last hour."""
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv:
        topic = sys.argv[2] if len(sys.argv) > 2 else "Orders"
        if len(sys.argv) < 3:
            fill(namesrv, topic, [f"order {number}" for number in range(100)])
        found = read_since(namesrv, topic, round(time.time() * 1000) - 3_600_000)
        print(f"{len(found)} messages of {topic} in the last hour")


if __name__ == "__main__":
    main()
