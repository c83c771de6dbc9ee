"""Consumers of a kill loop as a process: `python -m tests.kill.consuming NAME_SERVER NAME FOLDER`.

It has a member of each group of its role, and so a kill hits a member of each. They take the messages of a queue one at
a time, in its order, and tell of each. Ends in order at SIGTERM.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio

from rocketpy.consumer.lite import LitePullConsumer
from rocketpy.consumer.push import PushConsumer
from rocketpy.errors import RocketMQError
from rocketpy.message import MessageExt
from rocketpy.results import ConsumeFromWhere, MessageModel
from tests.kill.content import GROUPS, MEMBERS, TOPIC, Way, is_whole, name_of, role_of
from tests.kill.telling import tell, until_terminated

TRY_AGAIN = 0.2
REBALANCE_INTERVAL = 2.0
PERSIST_INTERVAL = 1.0
"""Shorter than a user's: the broker dies every second or two here, and what no one has noted down comes again."""
POLL_TIMEOUT = 0.5
ACKNOWLEDGING = "consumer-1"
"""The role whose member of a polled group acknowledges each message."""
INSTANCE = "kill-loop"
"""A name that all lives of a broadcast's member have, as their file is found by it."""


Live = Callable[[Callable[[], None], trio.Event], Awaitable[None]]
"""One life of a consumer: it is given what to call when it has started, and what is set when it shall close."""


def begin(group: str, message: MessageExt) -> None:
    """Tell that a message has come."""
    kind = "got" if is_whole(message) else "bad"
    tell(kind, name_of(message.body), group, message.queue_id, message.queue_offset, message.message_id)


async def take(group: str, message: MessageExt) -> None:
    """The listener."""
    begin(group, message)


async def take_in_order(group: str, message: MessageExt) -> None:
    """The listener of a group in order, which tells of its end too."""
    begin(group, message)
    await trio.lowlevel.checkpoint()
    tell("done", name_of(message.body), group, message.queue_id, message.queue_offset)


def settings_of(group: str, name_server: str, folder: str) -> dict[str, Any]:
    """What the member of a group is made with."""
    own: dict[Way, dict[str, Any]] = {
        Way.CONCURRENT: {"consume_thread_max": 1},
        Way.ORDERLY: {"orderly": True},
        Way.POLLED: {"auto_commit_interval": PERSIST_INTERVAL},
        Way.BROADCAST: {
            "message_model": MessageModel.BROADCASTING,
            "consume_thread_max": 1,
            "local_offset_store_dir": folder,
            "instance_name": INSTANCE,
        },
    }
    return {
        "namesrv": name_server,
        "consume_from_where": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        "rebalance_interval": REBALANCE_INTERVAL,
        "persist_consumer_offset_interval": PERSIST_INTERVAL,
        **own[GROUPS[group]],
    }


async def listen(group: str, settings: dict[str, Any], ready: Callable[[], None], end: trio.Event) -> None:
    """One life of a push consumer."""
    listener = take_in_order if GROUPS[group] is Way.ORDERLY else take
    consumer = PushConsumer(group, **settings)
    consumer.subscribe(TOPIC, partial(listener, group))
    async with consumer:
        ready()
        await end.wait()


async def poll(
    group: str, settings: dict[str, Any], ready: Callable[[], None], end: trio.Event, *, acknowledging: bool
) -> None:
    """One life of a lite pull consumer."""
    consumer = LitePullConsumer(group, **settings)
    consumer.subscribe(TOPIC)
    async with consumer:
        ready()
        while not end.is_set():
            for message in await consumer.poll(timeout=POLL_TIMEOUT):
                begin(group, message)
                if acknowledging:
                    consumer.ack(message)


class Crew:
    """The members of a process.

    Args:
        name: Its name.
        end: Set when they shall close.
    """

    def __init__(self, name: str, end: trio.Event) -> None:
        self._name = name
        self._end = end
        self._started: set[str] = set()

    async def consume(self, group: str, live: Live) -> None:
        """Consume until SIGTERM; start again if the start fails, as a service manager would."""
        while not self._end.is_set():
            try:
                await live(partial(self._ready, group), self._end)
            except RocketMQError as error:
                kind = "broke" if group in self._started else "start"
                tell(kind, self._name, type(error).__name__, *str(error).split())
                await trio.sleep(TRY_AGAIN)

    def _ready(self, group: str) -> None:
        self._started.add(group)
        if self._started == set(MEMBERS[role_of(self._name)]):
            tell("ready", self._name)


async def main(name_server: str, name: str, folder: str) -> None:
    """All members of the process."""
    role = role_of(name)
    async with until_terminated() as end, trio.open_nursery() as nursery:
        crew = Crew(name, end)
        for group in MEMBERS[role]:
            settings = settings_of(group, name_server, folder)
            polled = partial(poll, group, settings, acknowledging=role == ACKNOWLEDGING)
            live = polled if GROUPS[group] is Way.POLLED else partial(listen, group, settings)
            nursery.start_soon(crew.consume, group, live)
    tell("bye", name)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:4])
