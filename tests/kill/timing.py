"""Timer messages in a kill loop, as a process: `python -m tests.kill.timing NAME_SERVER NAME`.

It sends messages for moments of the next seconds, takes some back, and consumes what comes. At SIGTERM it waits for
what is still due, then tells what came of all of it. Nobody kills this process; the broker dies under it.
"""

from __future__ import annotations

import itertools
import sys
import time

import attrs
import trio

from rocketpy.consumer.push import PushConsumer
from rocketpy.errors import RocketMQError
from rocketpy.message import Message, MessageExt
from rocketpy.producer import Producer
from rocketpy.results import ConsumeFromWhere
from tests.kill.telling import tell, until_terminated

TOPIC = "KilledTimed"
DELAYS_MS = (150, 400, 1000, 1700, 3000, 4500)
EACH = 0.05
"""Seconds between two sends."""
RECALLED = 8
"""One of so many messages is taken back, if its time is far enough."""
DRAIN_SECONDS = 25.0


def wall() -> float:
    """Milliseconds since 1970."""
    return time.time() * 1000


@attrs.define
class Timed:
    """What became of the messages.

    Attributes:
        waiting: Those that were acknowledged, and have not come.
        recalled: Those of which the broker has said that they will not come.
        unknown: Those of which nobody knows whether they are recalled.
        came: How often each came.
        early: Those that came before their time.
    """

    waiting: set[str] = attrs.field(factory=set)
    recalled: set[str] = attrs.field(factory=set)
    unknown: set[str] = attrs.field(factory=set)
    came: dict[str, int] = attrs.field(factory=dict)
    early: set[str] = attrs.field(factory=set)
    sent: int = 0

    def take(self, message: MessageExt) -> None:
        """The listener."""
        name, _, due = message.body.decode().partition(" ")
        self.came[name] = self.came.get(name, 0) + 1
        self.waiting.discard(name)
        if wall() < int(due):
            self.early.add(name)

    def counts(self) -> tuple[int, int, int, int, int]:
        """Sent, early, lost, recalled and delivered, delivered more than once."""
        lost = self.waiting - self.recalled - self.unknown
        back = sum(name in self.came for name in self.recalled)
        return self.sent, len(self.early), len(lost), back, sum(count > 1 for count in self.came.values())


async def send(producer: Producer, timed: Timed, number: int) -> None:
    """Send a message, and perhaps take it back."""
    name, delay = f"m{number}", DELAYS_MS[number % len(DELAYS_MS)]
    due = round(wall()) + delay
    try:
        result = await producer.send(Message(TOPIC, f"{name} {due}".encode(), deliver_at=due))
    except RocketMQError:
        await trio.sleep(0.1)
        return
    timed.sent += 1
    if name not in timed.came:
        timed.waiting.add(name)
    if delay > 2500 and number % RECALLED == 0 and result.recall_handle is not None:
        timed.unknown.add(name)
        try:
            await producer.recall(TOPIC, result.recall_handle)
        except RocketMQError:
            return
        timed.unknown.discard(name)
        timed.recalled.add(name)
        timed.waiting.discard(name)


async def main(name_server: str, name: str) -> None:
    """Send and consume until SIGTERM."""
    timed = Timed()
    consumer = PushConsumer(
        "timers", namesrv=name_server, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    )
    consumer.subscribe(TOPIC, timed.take)
    async with until_terminated() as end, Producer("kill-timers", namesrv=name_server) as producer:
        await producer.create_topic(TOPIC, queues=2)
        async with consumer:
            tell("ready", name)
            for number in itertools.count():
                if end.is_set():
                    break
                await send(producer, timed, number)
                await trio.sleep(EACH)
            with trio.move_on_after(DRAIN_SECONDS):
                while timed.waiting - timed.unknown:  # noqa: ASYNC110  the listener runs in a thread
                    await trio.sleep(0.1)
    tell("timed", name, *timed.counts())
    tell("bye", name)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:3])
