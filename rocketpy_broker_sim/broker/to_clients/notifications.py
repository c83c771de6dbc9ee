"""Telling the members of a consumer group that it changed, so that they share out the queues again.

A change is told to everybody who is a member. Then a large group rests, the longer the larger it is, and what
changes meanwhile is told once at the end. If each of a thousand clients were told of each that comes, a million notices
and as many requests for the list of members would follow. Each member has at most one notice of a group outstanding,
even one that does not read. Plays the part of DefaultConsumerIdsChangeListener and Broker2Client.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, cast

import trio

from rocketpy.errors import ConnectionLostError, RocketMQError
from rocketpy.logs import get_logger
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.group import NotifyConsumerIdsChangedRequestHeader

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy_broker_sim.broker.tables.clients import Channel
    from rocketpy_broker_sim.serving.slices import Slices

__all__ = ["REST_PER_MEMBER", "SMALL", "Notices"]

_logger = get_logger(__name__)

REST_PER_MEMBER = 0.001
"""Seconds that a group rests after a notice, for each member that was told."""
SMALL = 32
"""Members up to which a group is told at once and needs no rest."""


class Notices:
    """Tells members of groups that change.

    Args:
        members: the connections of a group that are to be told, as it is now.
        slices: where the telling is done.
    """

    def __init__(self, members: Callable[[str], list[Channel]], slices: Slices) -> None:
        self._members = members
        self._slices = slices
        self._resting: set[str] = set()
        self._changed: set[str] = set()
        """Groups that have changed since they rest."""
        self._ends: list[tuple[float, str]] = []
        """When the groups that rest have done so, the next one first."""
        self._owed: dict[Connection, dict[str, None]] = {}
        """What those are to be told who do not read."""
        self._woken = trio.Event()
        self._blocked: list[Connection] = []

    def changed(self, group: str) -> None:
        """A group changed: its members are told now, or when it has rested."""
        if group in self._resting:
            self._changed.add(group)
            return
        channels = self._members(group)
        if len(channels) > SMALL:
            self._resting.add(group)
            self._slices.spawn(self._round(group), "telling a group that it changed")
            return
        for channel in channels:
            self._notify(cast("Connection", channel), group)

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Tell what changed while groups rested, and those who read again, until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                with trio.move_on_at(self._ends[0][0] if self._ends else math.inf):
                    await self._woken.wait()
                self._woken = trio.Event()
                blocked, self._blocked = self._blocked, []
                for connection in blocked:
                    nursery.start_soon(self._tell_later, connection)
                self._end_rests()

    def _end_rests(self) -> None:
        now = trio.current_time()
        while self._ends and self._ends[0][0] <= now:
            _, group = heapq.heappop(self._ends)
            self._resting.discard(group)
            if group in self._changed:
                self._changed.discard(group)
                self.changed(group)

    def _round(self, group: str) -> Generator[None, None, None]:
        """Tell every member of a large group, a step for each; then it rests."""
        channels = self._members(group)
        for channel in channels:
            yield
            self._notify(cast("Connection", channel), group)
        heapq.heappush(self._ends, (trio.current_time() + len(channels) * REST_PER_MEMBER, group))
        self._woken.set()

    def _notify(self, connection: Connection, group: str) -> None:
        """Tell one member, or note that it is to be told when it reads."""
        owed = self._owed.get(connection)
        if not connection.is_open:
            return
        if owed is not None:
            owed[group] = None
        elif connection.is_full:
            self._owed[connection] = {group: None}
            self._blocked.append(connection)
            self._woken.set()
        else:
            _send(connection, group)

    @trio.lowlevel.enable_ki_protection
    async def _tell_later(self, connection: Connection) -> None:
        """Wait until a member reads, then tell it what it is owed."""
        try:
            await connection.wait_writable()
        except ConnectionLostError:
            await trio.lowlevel.checkpoint()
        for group in self._owed.pop(connection):
            self._notify(connection, group)


def _send(connection: Connection, group: str) -> None:
    """Send NOTIFY_CONSUMER_IDS_CHANGED; a member that cannot be told will find out by itself."""
    fields = NotifyConsumerIdsChangedRequestHeader(consumer_group=group).to_ext()
    try:
        connection.send_oneway(RemotingCommand.oneway(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields))
    except RocketMQError as exc:
        _logger.info("group %s: %s was not notified of a change: %s", group, connection.address, exc)
