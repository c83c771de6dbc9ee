"""The demonstration: a cluster, a producer and a consumer in one loop, and every message on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.push import PushConsumer
from rocketpy.errors import RequestTimeoutError
from rocketpy.message import Message
from rocketpy.producer import Producer
from rocketpy.results import ConsumeFromWhere
from rocketpy_broker_sim.cluster.local import LocalCluster

if TYPE_CHECKING:
    from rocketpy.message import MessageExt

__all__ = ["demo"]

TOPIC = "Demo"
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
SETTLE = 0.1
"""Seconds for the news of the topic, which the first message made, to reach the name server."""
WITHIN = 30.0
"""Seconds for the whole of it."""


def demo(count: int) -> int:
    """Send messages and consume them; returns the exit status.

    Raises:
        RequestTimeoutError: not everything came in time.
    """
    trio.run(_demo, count)
    return 0


async def _demo(count: int) -> None:
    with trio.move_on_after(WITHIN) as scope:
        async with LocalCluster() as cluster:
            address = cluster.name_server_addresses
            print(f"name server on {address}, broker on {cluster.brokers[0].address}")
            async with Producer("demo-producer", namesrv=address) as producer:
                await _send(producer, 0)
                await trio.sleep(SETTLE)
                await _consume(producer, address, count)
    if scope.cancelled_caught:
        raise RequestTimeoutError(f"not everything was consumed within {WITHIN:g} s", timeout=WITHIN)


async def _send(producer: Producer, number: int) -> None:
    result = await producer.send(Message(TOPIC, f"message {number}".encode(), keys=[str(number)]))
    print(f"  sent      message {number} to queue {result.queue.queue_id} at offset {result.queue_offset}")


async def _consume(producer: Producer, address: str, count: int) -> None:
    """Consume what is there and what is sent meanwhile."""
    received: set[str] = set()
    complete = trio.Event()
    began = trio.current_time()

    async def show(message: MessageExt) -> None:
        print(f"  received  {message.body.decode()} from queue {message.queue_id} at offset {message.queue_offset}")
        received.update(message.keys)
        if len(received) == count:
            complete.set()

    consumer = PushConsumer("demo-consumer", namesrv=address, consume_from_where=FIRST)
    consumer.subscribe(TOPIC, show)
    async with consumer:
        for number in range(1, count):
            await _send(producer, number)
        await complete.wait()
        print(f"{count} sent, {len(received)} received in {(trio.current_time() - began) * 1000:.0f} ms")
