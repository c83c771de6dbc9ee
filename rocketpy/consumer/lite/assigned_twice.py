"""Checks whether another member of the group consumes queues that are assigned to this one.

Assigned queues are not shared out, and brokers let two members pull the same queue: both get all of its messages, and
each overwrites the offsets that the other commits. So a member to which queues are assigned regularly asks the other
members, through a broker, which queues they have, and logs a warning if it has some of them itself. It warns only if a
second question a few seconds later gets the same answer, because queues may be moving from one member to the other.
Members that do not name their queues, such as Java's lite pull consumers, go unnoticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.other_members import OtherMembers, next_of
from rocketpy.errors import NoPermissionError, RequestCodeNotSupportedError
from rocketpy.logs import get_logger
from rocketpy.results import MessageModel

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.consumer.lite.selection import Selection
    from rocketpy.message import MessageQueue

__all__ = ["AssignedTwice"]

logger = get_logger(__name__)

FIRST_LOOK = 3.0
"""Seconds after the start until the first look."""
SECOND_LOOK = 5.0
"""Seconds after which a member that has some of our queues is asked again."""
LOOK_EVERY = 30.0
"""Seconds between looks."""
MOST_ASKED = 8
"""Members that one look asks at most; the next look continues with the others."""
_MOST_SAID = 5


class AssignedTwice:
    """The service that looks for queues consumed by two members.

    Args:
        client: how to reach brokers.
        group: the consumer group.
        selection: has the assigned queues.
    """

    def __init__(self, client: MQClientInstance, group: str, selection: Selection) -> None:
        self._client_id = client.client_id
        self._group = group
        self._members = OtherMembers(client, group)
        self._selection = selection
        self._asked_last = ""
        self._told: dict[str, frozenset[MessageQueue]] = {}

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Look regularly. Ends if brokers do not support the request, or do not permit it."""
        await trio.sleep(FIRST_LOOK)
        while True:
            try:
                await self._look()
            except (NoPermissionError, RequestCodeNotSupportedError) as error:
                logger.debug("cannot check which other members have queues of %s: %s", self._group, error)
                return
            await trio.sleep(LOOK_EVERY)

    async def _look(self) -> None:
        if not self._selection.assigned:
            return
        others = await self._members.ids()
        self._told = {member: queues for member, queues in self._told.items() if member in others}
        for member in self._next_of(others):
            shared = await self._shared_with(member)
            if shared - self._told.get(member, frozenset()):
                await trio.sleep(SECOND_LOOK)
                self._tell(member, shared & await self._shared_with(member))

    def _next_of(self, others: Sequence[str]) -> list[str]:
        """The members to ask in this look."""
        found = next_of(others, self._asked_last, MOST_ASKED)
        if found:
            self._asked_last = found[-1]
        return found

    async def _shared_with(self, member: str) -> frozenset[MessageQueue]:
        """The queues assigned here that another member has too; empty if no broker can tell.

        Raises:
            NoPermissionError, RequestCodeNotSupportedError: brokers refuse the request.
        """
        info = await self._members.running_info(member)
        if info is None or info.properties.get("messageModel") == MessageModel.BROADCASTING.name:
            return frozenset()
        theirs = {queue for queue, state in info.mq_table.items() if not state.droped}
        return self._selection.assigned & theirs

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
            self._client_id,
            member,
            names,
            ", ..." if len(shared) > _MOST_SAID else "",
        )
