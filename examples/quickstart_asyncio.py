"""Send and receive with asyncio: so many orders to a topic, received by a task of the same loop.

python -m examples.quickstart_asyncio [-n 127.0.0.1:9876] [-c 100]
"""

from __future__ import annotations

import argparse
import asyncio

import rocketpy.aio
from rocketpy.aio import Message, MessageExt

TOPIC = "AsyncioOrders"


async def exchange(namesrv: str | None, count: int) -> None:
    """Producer and consumer share a client, so that they share its connections; leaving the block closes all three."""
    inbox: asyncio.Queue[MessageExt] = asyncio.Queue()
    async with (
        rocketpy.aio.MQClientInstance(namesrv=namesrv) as client,
        rocketpy.aio.Producer("asyncio_orders", client=client) as producer,
        rocketpy.aio.PushConsumer("asyncio_billing", client=client, consume_from_where="earliest") as consumer,
    ):
        await producer.create_topic(TOPIC)
        consumer.subscribe(TOPIC, inbox.put)  # an async listener runs in this loop: it may use what belongs to it
        async with asyncio.TaskGroup() as sends:
            for number in range(count):
                sends.create_task(producer.send(Message(TOPIC, f"order {number}", keys=[str(number)])))
        print(f"{count} sent")
        async with asyncio.timeout(30):
            received = {(await inbox.get()).body for _ in range(count)}
        print(f"{len(received)} received")


def main() -> None:
    """Read the options, run the loop."""
    parser = argparse.ArgumentParser(prog="quickstart_asyncio")
    parser.add_argument("-n", "--namesrv", default=None, help='"host:port;host:port"; NAMESRV_ADDR when left out')
    parser.add_argument("-c", "--count", type=int, default=100, help="how many messages")
    options = parser.parse_args()
    asyncio.run(exchange(options.namesrv, options.count))


if __name__ == "__main__":
    main()
