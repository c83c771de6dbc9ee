"""The consumer of a kill loop as a process: `python -m tests.kill.consuming NAME_SERVER NAME GROUP`.

It takes one message at a time, so that deliveries of a queue come in its order, and tells of each. Ends in order at
SIGTERM.
"""

from __future__ import annotations

import sys

import trio

from rocketpy.consumer.push import PushConsumer
from rocketpy.errors import RocketMQError
from rocketpy.message import MessageExt
from rocketpy.results import ConsumeFromWhere
from tests.kill.content import TOPIC, is_whole, name_of
from tests.kill.telling import tell, until_terminated

TRY_AGAIN = 0.2
REBALANCE_INTERVAL = 2.0
PERSIST_INTERVAL = 1.0
"""Shorter than a user's: the broker dies every second or two here, and what no one has noted down comes again."""


async def take(message: MessageExt) -> None:
    """The listener."""
    kind = "got" if is_whole(message) else "bad"
    tell(kind, name_of(message.body), message.queue_id, message.queue_offset, message.message_id)


async def consume(name_server: str, name: str, group: str, end: trio.Event) -> None:
    """One life of a consumer."""
    consumer = PushConsumer(
        group,
        namesrv=name_server,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        consume_thread_max=1,
        rebalance_interval=REBALANCE_INTERVAL,
        persist_consumer_offset_interval=PERSIST_INTERVAL,
    )
    consumer.subscribe(TOPIC, take)
    async with consumer:
        tell("ready", name)
        await end.wait()


async def main(name_server: str, name: str, group: str) -> None:
    """Consume until SIGTERM; begin again when the start fails, as whoever deploys it would."""
    async with until_terminated() as end:
        while not end.is_set():
            try:
                await consume(name_server, name, group, end)
            except RocketMQError as error:
                tell("start", name, type(error).__name__)
                await trio.sleep(TRY_AGAIN)
    tell("bye", name)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:4])
