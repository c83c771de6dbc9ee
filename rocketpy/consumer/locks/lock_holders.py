"""LockHolders: which members of the group have the locks that this one waits for.

A broker that refuses a lock does not say who has it, but members say which queues they have locked. So they are asked,
through a broker: seldom, a few at a time, and by a task of its own, as a rebalance must not wait for it. A member that
was killed cannot be asked, nor can one that is no longer connected. Java has no counterpart, but its orderly consumers
answer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.other_members import OtherMembers, next_of
from rocketpy.errors import NoPermissionError, RequestCodeNotSupportedError
from rocketpy.logs import get_logger
from rocketpy.services import side_by_side

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.message import MessageQueue
    from rocketpy.wire.bodies.running import ConsumerRunningInfo

__all__ = ["LockHolders"]

logger = get_logger(__name__)

ASK_EVERY = 20.0
"""Seconds that lie at least between the beginnings of two rounds."""
ROUND_TAKES = 3.0
"""Seconds that a round takes at most."""
MOST_ASKED = 32
"""Members that one round asks at most; the next one continues with the others."""
AT_ONCE = 8
"""Members that are asked at the same time."""


class LockHolders:
    """Finds out who has locked queues.

    Args:
        client: how to reach brokers.
        group: the consumer group.
    """

    def __init__(self, client: MQClientInstance, group: str) -> None:
        self._group = group
        self._members = OtherMembers(client, group)
        self._holders: dict[MessageQueue, str] = {}
        self._asked_last = ""
        self._next_round = float("-inf")
        self._refused = False

    def of(self, queue: MessageQueue) -> str | None:
        """The client id of the member that has locked a queue, as far as known. Thread-safe."""
        return self._holders.get(queue)

    def forget(self, queue: MessageQueue) -> None:
        """The lock of a queue is not wanted any more, or was given."""
        self._holders.pop(queue, None)

    async def ask(self, queues: Collection[MessageQueue]) -> None:
        """Ask who has locked these queues, unless that was done lately, or brokers refuse the question.

        Args:
            queues: what is wanted; a view that follows when queues are not wanted any more.
        """
        now = trio.current_time()
        if self._refused or now < self._next_round:
            return
        self._next_round = now + ASK_EVERY
        with trio.move_on_after(ROUND_TAKES):
            try:
                others = await self._members.ids()
            except (NoPermissionError, RequestCodeNotSupportedError) as error:
                self._give_up(error)
            else:
                await self._ask_members(others, queues)

    async def _ask_members(self, others: Collection[str], queues: Collection[MessageQueue]) -> None:
        """Ask members until each queue has a holder, those first that were holders before."""
        found: dict[MessageQueue, int] = {}
        former = sorted({self._holders[queue] for queue in queues if queue in self._holders}.intersection(others))[
            :MOST_ASKED
        ]
        ordered = [member for member in next_of(sorted(others), self._asked_last, MOST_ASKED) if member not in former]

        async def ask(member: str) -> None:
            try:
                info = await self._members.running_info(member)
            except (NoPermissionError, RequestCodeNotSupportedError) as error:
                self._give_up(error)
            else:
                if info is not None:
                    self._note(member, info, queues, found)

        for asked in (former, ordered[: max(0, MOST_ASKED - len(former))]):
            for start in range(0, len(asked), AT_ONCE):
                if self._refused or found.keys() >= set(queues):
                    return
                await side_by_side(ask, part := asked[start : start + AT_ONCE])
                if asked is not former:
                    self._asked_last = part[-1]

    def _note(
        self,
        member: str,
        info: ConsumerRunningInfo,
        queues: Collection[MessageQueue],
        found: dict[MessageQueue, int],
    ) -> None:
        """Note what a member says. Of several that claim a lock, the one that had it confirmed last has it."""
        for queue in queues:
            state = info.mq_table.get(queue)
            if state is not None and state.locked:
                if state.last_lock_timestamp >= found.get(queue, state.last_lock_timestamp):
                    found[queue] = state.last_lock_timestamp
                    self._holders[queue] = member
            elif self._holders.get(queue) == member:
                del self._holders[queue]

    def _give_up(self, error: NoPermissionError | RequestCodeNotSupportedError) -> None:
        self._refused = True
        logger.debug("cannot find out which members have the locks of %s: %s", self._group, error)
