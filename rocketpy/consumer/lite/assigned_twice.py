"""Whether queues that were assigned to this member are consumed by another member of its group, too.

Nobody shares out queues that users assign, and no broker keeps two members from one queue: both get its messages, and
each overwrites the offsets that the other commits. So a member asks the others now and then, through a broker, which
queues they have, and says when some of them are its own. It has to be so at a second look: queues that change hands
are at two places for a moment. Members that do not tell, such as Java's lite pull consumers, are not suspected.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import trio

from rocketpy.client.api import group as group_api
from rocketpy.errors import NoPermissionError, RequestCodeNotSupportedError, RocketMQError
from rocketpy.logs import get_logger
from rocketpy.results import MessageModel

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.consumer.lite.wanted import Wishes
    from rocketpy.message import MessageQueue

__all__ = ["AssignedTwice"]

logger = get_logger(__name__)

FIRST_LOOK = 3.0
"""Seconds after the start until the first look."""
SECOND_LOOK = 5.0
"""Seconds after which a member is asked again that has queues of ours."""
LOOK_EVERY = 30.0
"""Seconds between looks."""
MOST_ASKED = 8
"""Members that are asked in one look; in a large group, the next look goes on with the others."""
_MOST_SAID = 5


class AssignedTwice:
    """Looks now and then.

    Args:
        client: how to reach brokers.
        group: the consumer group.
        wishes: which queues are assigned.
    """

    def __init__(self, client: MQClientInstance, group: str, wishes: Wishes) -> None:
        self._client = client
        self._group = group
        self._wishes = wishes
        self._asked_last = ""
        self._told: dict[str, frozenset[MessageQueue]] = {}

    async def run(self) -> None:
        """The service. It ends when brokers do not pass on such questions, or not ours."""
        await trio.sleep(FIRST_LOOK)
        while True:
            try:
                await self._look()
            except (NoPermissionError, RequestCodeNotSupportedError) as error:
                logger.debug("nobody looks who else has queues of %s: %s", self._group, error)
                return
            await trio.sleep(LOOK_EVERY)

    async def _look(self) -> None:
        if not self._wishes.assigned:
            return
        others = await self._others()
        self._told = {member: queues for member, queues in self._told.items() if member in others}
        for member in self._next_of(others):
            shared = await self._shared_with(member)
            if shared - self._told.get(member, frozenset()):
                await trio.sleep(SECOND_LOOK)
                self._tell(member, shared & await self._shared_with(member))

    async def _others(self) -> Sequence[str]:
        """The other members of the group that a broker knows, in order."""
        for address in sorted(self._client.heartbeats.answering):
            try:
                found = await group_api.consumer_list(
                    self._client.pool, address, self._group, timeout=self._client.config.request_timeout
                )
            except (NoPermissionError, RequestCodeNotSupportedError):
                raise
            except RocketMQError as error:
                logger.debug("%s did not say who is in the group: %s", address, error)
            else:
                return sorted(set(found) - {self._client.client_id})
        return ()

    def _next_of(self, others: Sequence[str]) -> list[str]:
        """Those whose turn it is to be asked."""
        turn = [member for member in others if member > self._asked_last]
        found = list(islice((*turn, *others[: len(others) - len(turn)]), MOST_ASKED))
        if found:
            self._asked_last = found[-1]
        return found

    async def _shared_with(self, member: str) -> frozenset[MessageQueue]:
        """The queues assigned here that another member says it has.

        Raises:
            NoPermissionError, RequestCodeNotSupportedError: brokers do not pass on the question.
        """
        for address in sorted(self._client.heartbeats.answering):
            try:
                info = await group_api.running_info(
                    self._client.pool, address, self._group, member, timeout=self._client.config.request_timeout
                )
            except (NoPermissionError, RequestCodeNotSupportedError):
                raise
            except RocketMQError as error:
                logger.debug("%s did not say which queues %s has: %s", address, member, error)
                continue
            if info.properties.get("messageModel") == MessageModel.BROADCASTING.name:
                return frozenset()
            theirs = {queue for queue, state in info.mq_table.items() if not state.droped}
            return self._wishes.assigned & theirs
        return frozenset()

    def _tell(self, member: str, shared: frozenset[MessageQueue]) -> None:
        if not shared - self._told.get(member, frozenset()):
            return
        self._told[member] = shared
        names = ", ".join(str(queue) for queue in sorted(shared)[:_MOST_SAID])
        logger.warning(
            "two members of group %s consume the same queues: this one (%s), to which they are assigned, and %s have "
            "%s%s. Both get all of their messages, and each overwrites the offsets that the other commits. Assign each "
            "queue to one member only, let all members subscribe instead, or use another group",
            self._group,
            self._client.client_id,
            member,
            names,
            ", ..." if len(shared) > _MOST_SAID else "",
        )
