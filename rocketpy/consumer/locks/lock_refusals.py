"""LockRefusals: the locks that brokers refuse to an orderly consumer because another member has them.

Members need a moment to hand queues over, so a refusal is normal at first. When it lasts, a task of its own finds out
which member has the lock, and logs a warning once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.consumer.locks.lock_holders import LockHolders
from rocketpy.errors import QueueLockedError
from rocketpy.logs import get_logger, quote
from rocketpy.reprs import Short

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.message import MessageQueue

__all__ = ["LockRefusals", "LockStatus"]

logger = get_logger(__name__)

BROKER_FREES_AFTER = 60.0
"""Seconds after which a broker frees the lock of a client that it has not heard from."""
TOLD_AFTER = 5.0
"""Seconds for which a refused lock is not logged, since members need a moment to hand queues over."""
_MOST_SAID = 5


@attrs.frozen(kw_only=True, repr=False)
class LockStatus(Short):
    """The lock on one queue that an orderly consumer has, or wants."""

    held: bool
    """Whether the broker has given the lock to this consumer, and has confirmed it recently enough for it to be
    valid."""
    expires_in: float | None
    """Seconds until the lock expires unless the broker confirms it. 0.0 when it has expired, so that nothing is pulled,
    consumed or committed until the broker confirms it. None when another member has the lock."""
    refused_for: float | None
    """Seconds since the broker first said that another member has the lock. None when this consumer has it."""
    free_in: float | None
    """Seconds until the broker frees the lock, if the member that has it was killed. 0.0 when that member is alive and
    has not released it. None when this consumer has the lock."""
    holder: str | None = None
    """The client id of the member that has the lock, which is this consumer's own when `held`. Other members are asked
    once a lock has been refused for 5 seconds, and then every 20 seconds. None when none has said that it has it."""


class LockRefusals:
    """The refused locks of one consumer.

    Args:
        client: how to reach brokers.
        group: the consumer group.
    """

    def __init__(self, client: MQClientInstance, group: str) -> None:
        self._group = group
        self._since: dict[MessageQueue, float] = {}
        self._told: set[MessageQueue] = set()
        self._holders = LockHolders(client, group)
        self._lasting = trio.Event()

    def look(self, now: float) -> dict[MessageQueue, LockStatus]:
        """The status of each lock that is refused. Thread-safe."""
        known: dict[MessageQueue, LockStatus] = {}
        for queue, since in tuple(self._since.items()):
            waited = max(0.0, now - since)
            free_in = max(0.0, BROKER_FREES_AFTER - waited)
            holder = self._holders.of(queue)
            known[queue] = LockStatus(held=False, expires_in=None, refused_for=waited, free_in=free_in, holder=holder)
        return known

    def note(self, queue: MessageQueue, asked: float) -> None:
        """A broker has refused a lock that it was asked for at a time of trio's clock."""
        self._since.setdefault(queue, asked)

    def forget(self, queue: MessageQueue) -> None:
        """A lock was given, or is not wanted any more."""
        self._since.pop(queue, None)
        self._told.discard(queue)
        self._holders.forget(queue)

    def topics(self) -> set[str]:
        """The topics of the queues whose locks are refused."""
        return {queue.topic for queue in self._since}

    def want_only(self, topic: str, queues: Collection[MessageQueue]) -> None:
        """Stop waiting for the locks of this topic's other queues."""
        for queue in [each for each in self._since if each.topic == topic and each not in queues]:
            self.forget(queue)

    def error(self, name: str, queues: Iterable[MessageQueue]) -> QueueLockedError | None:
        """Those of a broker's queues whose lock is refused, as an error; None if there are none."""
        refused = [queue for queue in queues if queue in self._since]
        if not refused:
            return None
        if self._late(refused):
            self._lasting.set()
        return QueueLockedError(self._why(name, refused))

    def _why(self, name: str, refused: list[MessageQueue]) -> str:
        waited = trio.current_time() - min(self._since[queue] for queue in refused)
        free_in = BROKER_FREES_AFTER - waited
        holders = sorted({quote(holder) for queue in refused if (holder := self._holders.of(queue)) is not None})
        said = f" ({', '.join(holders[:_MOST_SAID])}{', ...' if len(holders) > _MOST_SAID else ''})" if holders else ""
        return (
            f"{', '.join(f'{queue.topic}:{queue.queue_id}' for queue in refused)} of {name} locked by another member "
            f"of {self._group}{said} for {waited:.0f} s; "
        ) + (
            f"if that member is gone, the broker frees them within {free_in:.0f} s"
            if free_in > 0
            else "that member lives, and a listener of it is still at work there"
        )

    def _late(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        now = trio.current_time()
        return [queue for queue in queues if now - self._since[queue] > TOLD_AFTER]

    # --- telling ----------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Find out who has the locks that are refused for long, and warn once for each wait."""
        while True:
            await self._lasting.wait()
            self._lasting = trio.Event()
            await self._holders.ask(self._since.keys())
            self._tell()

    def _tell(self) -> None:
        """Warn once for each wait; `status()` tells how long it takes."""
        late = self._late(self._since)
        for name in sorted({queue.broker_name for queue in late if queue not in self._told}):
            why = self._why(name, [queue for queue in late if queue.broker_name == name])
            logger.warning("%s cannot be consumed yet: %s", name, QueueLockedError(why))
        self._told.update(late)
