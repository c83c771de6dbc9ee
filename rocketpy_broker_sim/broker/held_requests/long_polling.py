"""Long polling: pulls that found no message are held until one arrives that their filter matches, or time is up.

A held pull is run again exactly once, with holding switched off, so it is answered once and never held twice. Only what
answering needs is kept, so not its body, which a peer may have filled with anything. Plays the part of PullRequest and
NotifyMessageArrivingListener.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from sys import intern
from typing import TYPE_CHECKING

import attrs

from rocketpy.wire.sysflag import PullSysFlag
from rocketpy_broker_sim.broker.held_requests.waiters import Reason, Waiter
from rocketpy_broker_sim.store.filtering import MessageFilter

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy.wire.headers.pull import PullMessageRequestHeader
    from rocketpy_broker_sim.store.put_result import Arrival

__all__ = ["BY_ITSELF", "HeldPull", "held_pull"]

KEPT_AT_LEAST = 1024
"""Estimated bytes of a held pull, with its entries in the tables."""
BY_ITSELF = PullSysFlag.SUBSCRIPTION | PullSysFlag.LITE_PULL | PullSysFlag.COMMIT_OFFSET
"""A plain pull says what is wanted, and nothing else; so may that of a push consumer that has nothing to commit."""
_KEPT_OF_TEXT = 64
"""Estimated bytes of a header field, without its characters."""


@attrs.define(eq=False)
class HeldPull(Waiter):
    """One held pull."""

    offset: int = 0
    wanted: MessageFilter | None = None
    """The filter of the consumer; None for all messages."""
    is_one_of_many: bool = False
    """Whether its client may hold several in the queue at once."""

    @property
    def key(self) -> Hashable:
        """A consumer that pulls by itself has one pull for each queue: a second one replaces the first, which it has
        given up. Pulls that a program makes by queue and offset have nothing to do with each other.
        """
        return self if self.is_one_of_many else super().key

    def judge(self, arrival: Arrival, codes: Collection[int]) -> Reason | None:
        """Whether one of the messages matches, or the queue now ends before the offset that the pull waits for."""
        if self.offset >= arrival.max_offset:
            # The topic was deleted and created again while the pull waited: the offset will not be reached next.
            return Reason.OFFSET_ILLEGAL if self.offset > arrival.max_offset else None
        return Reason.ARRIVED if self.wanted is None or self.wanted.wants_any(arrival, codes) else None


def held_pull(
    connection: Connection,
    request: RemotingCommand,
    header: PullMessageRequestHeader,
    wanted: MessageFilter | None,
) -> HeldPull:
    """Make the waiter for a pull, with a copy of the request that keeps only what answering needs."""
    fields = request.ext_fields
    text = sum(_KEPT_OF_TEXT + len(name) + len(value) for name, value in fields.items())
    # Pulls have most fields in common: equal texts are kept once.
    shared = {intern(name): intern(value) for name, value in fields.items()}
    request = attrs.evolve(request, ext_fields=shared, body=b"", remark=None)
    return HeldPull(
        connection,
        request,
        header.topic,
        header.queue_id,
        header.consumer_group,
        KEPT_AT_LEAST + text + (0 if wanted is None else wanted.kept_size),
        offset=header.queue_offset,
        wanted=wanted,
        is_one_of_many=header.sys_flag & BY_ITSELF == PullSysFlag.SUBSCRIPTION,
    )
