"""Hear that a topic has more queues than before, on trio: `python -m examples.more_queues [NAMESRV]`.

Without a name server the program starts a cluster of its own.
"""

from __future__ import annotations

import sys

import trio

from examples.servers import fill, servers
from rocketpy import LitePullConsumer, MessageQueue, Producer


async def consume(namesrv: str) -> None:
    """Open a consumer, and create two more queues."""
    grown = trio.Event()

    async def on_queues(topic: str, queues: tuple[MessageQueue, ...]) -> None:
        print(f"{topic} has {len(queues)} queues now")
        grown.set()

    async with LitePullConsumer("couriers", namesrv=namesrv, poll_name_server_interval=1.0) as consumer:
        consumer.subscribe("Letters")
        consumer.on_queues_changed("Letters", on_queues)
        await consumer.wait_assigned(30)
        async with Producer("post-office", namesrv=namesrv) as producer:
            await producer.create_topic("Letters", queues=4)
        with trio.fail_after(60):
            await grown.wait()


def main() -> None:
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv:
        fill(namesrv, "Letters", ["a letter"], queues=2)
        trio.run(consume, namesrv)


if __name__ == "__main__":
    main()
