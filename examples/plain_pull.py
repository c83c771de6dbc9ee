"""Read queues offset by offset, without sharing them in a group: `python -m examples.plain_pull [NAMESRV TOPIC]`.

The program says where each pull begins and what the group has done; nothing runs in the background. Without a name
server it starts a cluster of its own, with some messages.
"""

from __future__ import annotations

import sys

from examples.servers import fill, servers
from rocketpy.sync import MessageQueue, PullConsumer, PullStatus


def walk(consumer: PullConsumer, queue: MessageQueue) -> int:
    """Continue where the group stopped, up to the end. Return how many messages there were."""
    offset, count = consumer.fetch_consume_offset(queue) or 0, 0
    while True:
        result = consumer.pull(queue, offset, max_messages=32)
        offset = result.next_begin_offset
        if result.status is PullStatus.FOUND:
            for message in result.messages:
                print(f"{queue.queue_id}:{message.queue_offset} {message.body.decode()}")
            count += len(result.messages)
        elif result.status is PullStatus.NO_NEW_MSG:
            consumer.update_consume_offset(queue, offset)
            return count
        # Whatever the status is, the answer has the offset to pull from next.


def main() -> None:
    """Read every queue of the topic."""
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv:
        topic = sys.argv[2] if len(sys.argv) > 2 else "Orders"
        if len(sys.argv) < 3:
            fill(namesrv, topic, ["coffee", "tea", "cake"])
        with PullConsumer("walking", namesrv=namesrv) as consumer:
            count = sum(walk(consumer, queue) for queue in sorted(consumer.fetch_message_queues(topic)))
        print(f"{count} messages")


if __name__ == "__main__":
    main()
