"""Unheard: retried messages without a listener, because their topic is not subscribed yet, or not any more.

They wait here, without an attempt being counted, and go to a listener as soon as there is one. A message that waits
holds up the offset of its queue and takes up room in it. So after a while, or if too many wait, it is sent to the end
of the retry topic with its attempts unchanged: another member may have the listener, or this one later. Messages that
wait when the consumer closes are neither committed nor sent back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.consumer.process_queue import ProcessQueue
from rocketpy.logs import Seldom, counted, get_logger
from rocketpy.message import MessageExt

if TYPE_CHECKING:
    from rocketpy.consumer.subscription import Subscriptions

__all__ = ["PATIENCE", "Unheard", "UnheardMessage"]

logger = get_logger(__name__)

PATIENCE = 30.0
"""Seconds for which a message waits here."""


@attrs.define(eq=False)
class UnheardMessage:
    """A message that waits for a listener until `due`, a time of trio's clock."""

    queue: ProcessQueue
    message: MessageExt
    due: float

    @property
    def gone(self) -> bool:
        """Whether its process queue was dropped, or does not hold it any more."""
        return self.queue.dropped or self.message.queue_offset not in self.queue


class Unheard:
    """The messages without a listener of one consumer.

    Args:
        subscriptions: has the listener of each topic.
        most: how many messages may wait.
        submit: takes messages of a queue that have a listener now.
        put_off: takes messages that have waited long enough.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        most: int,
        submit: Callable[[ProcessQueue, Sequence[MessageExt]], None],
        put_off: Callable[[Iterable[UnheardMessage]], None],
    ) -> None:
        self._subscriptions = subscriptions
        self._most = max(1, most)
        self._submit = submit
        self._put_off = put_off
        self._waiting: deque[UnheardMessage] = deque()
        self._some = trio.Event()
        self._seldom = Seldom(logger, clock=trio.current_time)

    def __len__(self) -> int:
        """How many messages wait."""
        return len(self._waiting)

    def add(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Let messages wait for a listener."""
        topic = messages[0].topic
        self._seldom.warning(
            topic,
            "no listener for topic %s: until it is subscribed, %s must wait, and will be retried after a while",
            topic,
            counted(len(messages), "message"),
        )
        for message in messages:
            self.keep(queue, message)
        if len(self._waiting) > self._most:
            self._forget_gone()
            self._put_off([self._waiting.popleft() for _ in range(len(self._waiting) - self._most)])

    def keep(self, queue: ProcessQueue, message: MessageExt) -> None:
        """Let a message wait, however many wait already, because no broker took it."""
        self._waiting.append(UnheardMessage(queue, message, trio.current_time() + PATIENCE))
        self._some.set()

    def look(self) -> None:
        """Pass on the messages that have a listener by now."""
        self._forget_gone()
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if self._subscriptions.listener(each.message.topic) is None:
                self._waiting.append(each)
            else:
                self._submit(each.queue, [each.message])

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Run the service, which puts off messages that have waited long enough."""
        while True:
            await self._some.wait()
            self._some = trio.Event()
            while self._waiting:
                await trio.sleep_until(self._waiting[0].due)
                now = trio.current_time()
                self._forget_gone()
                overdue: list[UnheardMessage] = []
                while self._waiting and self._waiting[0].due <= now:
                    overdue.append(self._waiting.popleft())
                self._put_off(overdue)

    def _forget_gone(self) -> None:
        self._waiting = deque(each for each in self._waiting if not each.gone)
