"""QueueLocks: which queues the brokers have locked for a consumer that consumes in order, and until when that counts.

A broker gives the lock of a queue to one client of a group at a time, and takes it back 60 s after it was last asked
for it. So a lock is asked for again every `lock_interval` (20 s), and one that was not confirmed for
`lock_max_live_time` (30 s), counted from the moment of asking, counts no more: nothing is pulled, consumed or committed
then. Where the connection to a broker ends, the broker may have been restarted, and restarted brokers remember no
locks: then the same holds at once, until the broker has confirmed. A lock that is confirmed after such a pause may have
been somebody else's meanwhile, which the offset at the broker tells. Plays the part of lock, lockAll, unlock and
unlockAll in RebalanceImpl.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Protocol

import attrs
import trio

from rocketpy.client.api import group as group_api
from rocketpy.errors import (
    BrokerUnreachableError,
    ConnectionLostError,
    QueueLockedError,
    RequestTimeoutError,
    RocketMQError,
)
from rocketpy.logs import counted, get_logger
from rocketpy.services import side_by_side

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.message import MessageQueue
    from rocketpy.remoting.connection import Connection

__all__ = ["LockOwner", "LockSettings", "LockStatus", "QueueLocks"]

logger = get_logger(__name__)

BROKER_FREES_AFTER = 60.0
"""Seconds after which a broker gives the lock of a client that it does not hear of to another one."""
ASK_AGAIN_AFTER = 1.0
"""Seconds between two questions while a lock is in doubt."""
TOLD_AFTER = 5.0
"""Seconds for which a lock may be refused without a word in the log: members hand queues over."""
TIMEOUT = 3.0
_NEVER = float("-inf")


class LockOwner(Protocol):
    """Who uses the locks."""

    def lock_counts(self, queue: MessageQueue, until: float) -> None:
        """The lock of a queue counts until then, a time of trio's clock; not at all when that is over."""
        ...

    def lock_lost(self, queue: MessageQueue) -> None:
        """Another member has the queue, or has had it."""
        ...

    async def is_ours_still(self, queue: MessageQueue) -> bool:
        """Whether nobody else has consumed the queue further than we have.

        Raises:
            RocketMQError: it could not be found out.
        """
        ...


class LockSettings(Protocol):
    """What of a consumer's settings is of interest here."""

    @property
    def group(self) -> str:
        """The group."""
        ...

    @property
    def lock_interval(self) -> float:
        """Seconds between two questions for a lock that is ours."""
        ...

    @property
    def lock_max_live_time(self) -> float:
        """Seconds for which a lock counts, from the moment of asking."""
        ...


@attrs.define
class _Lock:
    """The lock of one queue.

    Attributes:
        until: when it stops to count.
        counting: whether consuming goes on under it.
    """

    until: float
    counting: bool = True


@attrs.frozen(kw_only=True)
class LockStatus:
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


class QueueLocks:
    """The locks of one consumer.

    Args:
        client: how to reach brokers.
        config: of the consumer: its group, and how long locks count.
        owner: hears what becomes of them.
    """

    def __init__(self, client: MQClientInstance, config: LockSettings, owner: LockOwner) -> None:
        self._client = client
        self._config = config
        self._group = config.group
        self._owner = owner
        self._locks: dict[MessageQueue, _Lock] = {}
        self._refused: dict[MessageQueue, float] = {}
        self._watched: dict[str, Connection] = {}
        """By broker name, the connection over which it has confirmed."""
        self._unsure: set[str] = set()
        self._told: set[MessageQueue] = set()
        self._asking: defaultdict[str, trio.Lock] = defaultdict(trio.Lock)
        self._wanted = trio.Event()
        self._counts = trio.Event()

    # --- looking ----------------------------------------------------------------------------------------

    def counts(self, queue: MessageQueue) -> bool:
        """Whether we hold the lock of a queue."""
        lock = self._locks.get(queue)
        return lock is not None and lock.counting and trio.current_time() < lock.until

    async def wait_counts(self, queue: MessageQueue) -> None:
        """Wait until we hold the lock of a queue."""
        while not self.counts(queue):
            await self._counts.wait()

    def look(self, now: float) -> dict[MessageQueue, LockStatus]:
        """What is known of each. For any thread."""
        known: dict[MessageQueue, LockStatus] = {}
        for queue, lock in tuple(self._locks.items()):
            left = max(0.0, lock.until - now) if lock.counting else 0.0
            known[queue] = LockStatus(held=left > 0, expires_in=left, refused_for=None, free_in=None)
        for queue, since in tuple(self._refused.items()):
            waited = max(0.0, now - since)
            free_in = max(0.0, BROKER_FREES_AFTER - waited)
            known[queue] = LockStatus(held=False, expires_in=None, refused_for=waited, free_in=free_in)
        return known

    # --- having -----------------------------------------------------------------------------------------

    async def take(self, queues: Collection[MessageQueue]) -> list[RocketMQError]:
        """Ask for the locks of queues, every broker once. Returns why some are not ours; `counts` says which are."""
        failures: list[RocketMQError] = []

        async def ask(name: str) -> None:
            wanted = [queue for queue in queues if queue.broker_name == name]
            try:
                await self._ask(name, wanted, new=True)
            except RocketMQError as error:
                failures.append(error)
            refused = [queue for queue in wanted if queue in self._refused]
            if refused:
                failures.append(self._refusal(name, refused))
                self._tell(name, refused, failures[-1])

        await side_by_side(ask, sorted({queue.broker_name for queue in queues}))
        return failures

    def _tell(self, name: str, refused: list[MessageQueue], why: RocketMQError) -> None:
        """Once for each time: how long it takes is for `status` to say."""
        now = trio.current_time()
        late = {queue for queue in refused if now - self._refused[queue] > TOLD_AFTER}
        if late - self._told:
            logger.warning("%s cannot be consumed yet: %s", name, why)
        self._told = {queue for queue in self._told if queue in self._refused} | late

    def _refusal(self, name: str, refused: list[MessageQueue]) -> QueueLockedError:
        waited = trio.current_time() - min(self._refused[queue] for queue in refused)
        free_in = BROKER_FREES_AFTER - waited
        return QueueLockedError(
            f"{', '.join(f'{queue.topic}:{queue.queue_id}' for queue in refused)} of {name} locked by another member "
            f"of {self._group} for {waited:.0f} s; "
            + (
                f"if that member is gone, the broker frees them within {free_in:.0f} s"
                if free_in > 0
                else "that member lives, and a listener of it is still at work there"
            )
        )

    def forget(self, queues: Iterable[MessageQueue]) -> None:
        """These are not wanted any more, and not to be unlocked."""
        for queue in queues:
            self._locks.pop(queue, None)
            self._refused.pop(queue, None)

    def want_only(self, topic: str, queues: Collection[MessageQueue]) -> None:
        """No other queues of this topic are waited for."""
        for queue in [each for each in self._refused if each.topic == topic and each not in queues]:
            del self._refused[queue]

    async def give_back(self, queues: Collection[MessageQueue]) -> None:
        """Unlock queues, one message to each broker, and forget them. Who is not reached frees them by itself."""
        ours = [queue for queue in queues if queue in self._locks]
        self.forget(queues)

        async def unlock(name: str) -> None:
            mine = [queue for queue in ours if queue.broker_name == name]
            try:
                async with self._asking[name]:
                    address = self._master(mine[0])
                    pool, client_id = self._client.pool, self._client.client_id
                    await group_api.unlock_batch(pool, address, self._group, client_id, mine, timeout=TIMEOUT)
            except RocketMQError as error:
                logger.debug("the locks of %s at %s run out by themselves: %s", self._group, name, error)

        await side_by_side(unlock, sorted({queue.broker_name for queue in ours}))

    # --- keeping ----------------------------------------------------------------------------------------

    def _doubt(self, broker_name: str) -> None:
        """The connection to a broker has ended: its locks count only once it has confirmed them."""
        for queue, lock in self._locks.items():
            if queue.broker_name == broker_name and lock.counting:
                lock.counting = False
                self._owner.lock_counts(queue, _NEVER)
        self._wanted.set()

    async def run(self) -> None:
        """Ask for every lock again in time."""
        try:
            await self._renew_service()
        finally:
            for name in list(self._watched):
                self._unwatch(name)

    async def _renew_service(self) -> None:
        while True:
            in_doubt = not all(map(self.counts, self._locks))
            with trio.move_on_after(ASK_AGAIN_AFTER if in_doubt else self._rest()) as waiting:
                await self._wanted.wait()
            if not waiting.cancelled_caught and in_doubt:
                await trio.sleep(ASK_AGAIN_AFTER)  # however often a connection ends
            self._wanted = trio.Event()
            await side_by_side(self._renew, sorted({queue.broker_name for queue in self._locks}))

    def _rest(self) -> float:
        """Seconds until every lock is asked for again; what has failed once is not left to run out for long."""
        first = min((lock.until for lock in self._locks.values()), default=math.inf)
        return min(self._config.lock_interval, max(ASK_AGAIN_AFTER, first - trio.current_time()))

    async def _renew(self, name: str) -> None:
        queues = [queue for queue in self._locks if queue.broker_name == name]
        try:
            await self._ask(name, queues, new=False)
        except RocketMQError as error:
            if not all(map(self.counts, queues)):
                self._stop_counting(name, queues, error)

    def _stop_counting(self, name: str, queues: list[MessageQueue], error: RocketMQError) -> None:
        """Consuming has stopped by itself, since the time of the lock is over. Told once a change of state."""
        if name not in self._unsure:
            self._unsure.add(name)
            logger.warning(
                "the broker %s does not confirm the locks of %s on %s: nothing of them is consumed until it does: %s",
                name,
                self._group,
                counted(len(queues), "queue"),
                error,
            )
        locks = [self._locks[queue] for queue in queues if queue in self._locks]
        over = [lock for lock in locks if trio.current_time() >= lock.until]
        for lock in over:
            lock.counting = False
        if over and isinstance(error, RequestTimeoutError):
            self._abandon(name, error)

    def _abandon(self, name: str, error: RequestTimeoutError) -> None:
        """Take back what a broker may not have got, commits above all, before another member may have the queues.

        Whatever else comes from it, it has not answered over this connection for as long as a lock counts.
        """
        connection = self._watched.get(name)
        if connection is not None:
            connection.abandon(
                ConnectionLostError(
                    f"{connection.address} has not confirmed locks of {self._group} for as long as they count: the "
                    f"connection was given up, with all that it may not have got: {error}",
                    address=connection.address,
                )
            )

    async def _ask(self, name: str, queues: Iterable[MessageQueue], *, new: bool) -> None:
        """Ask a broker for the locks of some of its queues: new ones, or those that we have.

        Raises:
            RocketMQError: it does not say.
        """
        async with self._asking[name]:  # or it might hear first that a queue is unlocked, and then that it is locked
            wanted = [queue for queue in queues if new or queue in self._locks]
            if not wanted:
                return
            address = self._master(wanted[0])
            pool, client_id = self._client.pool, self._client.client_id
            connection = await pool.get(address, timeout=TIMEOUT)
            asked = trio.current_time()
            given = await group_api.lock_batch(pool, address, self._group, client_id, wanted, timeout=TIMEOUT)
            if pool.nowait(address) is not connection:
                raise ConnectionLostError(f"the connection to {address} ended while it locked queues", address=address)
            self._watch(name, connection)
        for queue in wanted:
            if queue not in given:
                self._refused.setdefault(queue, asked)
                self._lose(queue)
            elif new or queue in self._locks:
                self._refused.pop(queue, None)
                await self._given(queue, asked)

    def _watch(self, name: str, connection: Connection) -> None:
        """Hear of the end of the connection over which a broker has confirmed."""
        if self._watched.get(name) is not connection:
            self._unwatch(name)
            self._watched[name] = connection
            connection.add_close_callback(self._note_end)

    def _unwatch(self, name: str) -> None:
        connection = self._watched.pop(name, None)
        if connection is not None:
            connection.drop_close_callback(self._note_end)

    def _note_end(self, connection: Connection) -> None:
        for name in [name for name, watched in self._watched.items() if watched is connection]:
            del self._watched[name]
            self._doubt(name)

    def _lose(self, queue: MessageQueue) -> None:
        if self._locks.pop(queue, None) is not None:
            self._owner.lock_lost(queue)

    async def _given(self, queue: MessageQueue, asked: float) -> None:
        lock = self._locks.setdefault(queue, _Lock(asked + self._config.lock_max_live_time))
        if not lock.counting or asked >= lock.until:
            # Nobody promised that it was ours all the time.
            lock.counting = False
            ours = await self._owner.is_ours_still(queue)
            if self._locks.get(queue) is not lock:
                return
            if not ours:
                self._lose(queue)
                return
            if queue.broker_name in self._unsure:
                self._unsure.discard(queue.broker_name)
                logger.warning("the broker %s has confirmed the locks of %s again", queue.broker_name, self._group)
        lock.until, lock.counting = asked + self._config.lock_max_live_time, True
        self._owner.lock_counts(queue, lock.until)
        counts, self._counts = self._counts, trio.Event()
        counts.set()

    def _master(self, queue: MessageQueue) -> str:
        address = self._client.routes.broker_address(self._client.routes.broker_name(queue))
        if address is None:
            raise BrokerUnreachableError(
                f"the broker {queue.broker_name} of {queue} has no master now, which alone locks its queues",
                topic=queue.topic,
            )
        return address
