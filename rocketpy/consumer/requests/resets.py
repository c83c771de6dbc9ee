"""Resets: decides which offsets in a broker's reset requests a consumer accepts.

A broker may be faulty or hostile, and an offset beyond the end of a queue would make the whole group skip messages that
are sent from then on. So a consumer accepts an offset only from the broker that holds the queue, and only up to the end
of the queue, which it asks that broker for. Java's push consumers accept, and commit, whatever any of their brokers
sends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.offsets.queue_offsets import QueueOffsets
from rocketpy.errors import RocketMQError
from rocketpy.logs import Seldom, counted, get_logger
from rocketpy.remoting.rounds import in_slices
from rocketpy.services import side_by_side

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.message import MessageQueue

__all__ = ["Resets"]

logger = get_logger(__name__)

_ASKED_AT_ONCE = 32
_SORTED_AT_ONCE = 256


class Resets:
    """The resets of one consumer, which are carried out one after the other.

    Resets that arrive during another one are merged; of several offsets for one queue, the last one counts.

    Args:
        client: how to reach brokers.
        group: the consumer group.
        claimed: returns the queues that the consumer has, is about to take, or has not given up yet.
        go_to: continues at these offsets; it ignores queues that the consumer does not have.
        start: starts a task that may run until the consumer has closed: a reset waits for listeners and for a function
            of the user's, and others may follow it.
    """

    def __init__(
        self,
        client: MQClientInstance,
        group: str,
        *,
        claimed: Callable[[], Collection[MessageQueue]],
        go_to: Callable[[Mapping[MessageQueue, int]], Awaitable[None]],
        start: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> None:
        self._client = client
        self._group = group
        self._claimed = claimed
        self._go_to = go_to
        self._start = start
        self._ends = QueueOffsets(client, group)
        self._coming: dict[MessageQueue, int] = {}
        self._is_busy = False
        self._seldom = Seldom(logger, clock=trio.current_time)

    async def note(self, topic: str, offsets: Mapping[MessageQueue, int], *, sender: str, subscribed: bool) -> None:
        """Note the usable offsets of a reset for `carry_out`; the others are logged and ignored.

        Args:
            topic: the topic that the broker names.
            offsets: the offsets in its request.
            sender: the address of the broker.
            subscribed: whether the consumer subscribes to the topic.
        """
        wanted = await in_slices(self._usable_steps(topic, offsets, sender)) if subscribed else {}
        if len(wanted) < len(offsets) or not subscribed:
            self._seldom.warning(
                "unusable",
                "%s: ignoring %d of %s in a reset of %.256r by %s: the topic is not subscribed, the offsets are "
                "negative, or another broker holds the queues",
                self._group,
                len(offsets) - len(wanted),
                counted(len(offsets), "offset"),
                topic,
                sender,
            )
        self._coming.update(wanted)

    def carry_out(self) -> None:
        """Start a task that carries out the noted resets."""
        self._start(self._carry_out)

    async def _carry_out(self) -> None:
        """Carry out the noted resets, unless another task is doing so."""
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._coming:
                coming, self._coming = self._coming, {}
                if reachable := await self._without_impossible(coming):
                    await self._go_to(reachable)
        finally:
            self._is_busy = False

    def _usable_steps(
        self, topic: str, offsets: Mapping[MessageQueue, int], sender: str
    ) -> Generator[None, None, dict[MessageQueue, int]]:
        """The offsets of those queues of the topic that the sender holds; in steps, as a broker may send very many."""
        routes = self._client.routes
        known = frozenset(routes.subscribe_queues(topic) or ())
        names = {name for name, addresses in routes.brokers().items() if sender in addresses.values()}
        found: dict[MessageQueue, int] = {}
        for number, (queue, offset) in enumerate(offsets.items()):
            if queue in known and offset >= 0 and routes.broker_name(queue) in names:
                found[queue] = offset
            if not number % _SORTED_AT_ONCE:
                yield
        return found

    async def _without_impossible(self, wanted: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Leave out queues of this consumer that end before the wanted offset, or whose end cannot be found out."""
        refused: dict[MessageQueue, str] = {}
        checked: set[MessageQueue] = set()

        async def look(queue: MessageQueue) -> None:
            try:
                end = await self._ends.end(queue)
            except RocketMQError as error:
                refused[queue] = f"the end of the queue could not be found out: {error}"
            else:
                if wanted[queue] > end:
                    refused[queue] = f"the queue ends at {end}"

        # Repeated, because a rebalance may take more queues meanwhile.
        while queues := sorted((wanted.keys() & set(self._claimed())) - checked):
            checked.update(queues)
            await side_by_side(look, queues, at_once=_ASKED_AT_ONCE)
        if refused:
            first = min(refused)
            self._seldom.warning(
                "impossible",
                "%s: ignoring a reset of %s; the first of them is %s to %d: %s",
                self._group,
                counted(len(refused), "queue"),
                first,
                wanted[first],
                refused[first],
            )
        return {queue: offset for queue, offset in wanted.items() if queue not in refused}
