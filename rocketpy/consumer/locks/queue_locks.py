"""QueueLocks: which queues brokers have locked for an orderly consumer, and how long each lock is valid.

A broker gives the lock of a queue to one client of a group at a time, and frees it 60 s after the client last asked for
it. So each lock is renewed every `lock_interval` (20 s). A lock that was not confirmed for `lock_max_live_time` (30 s),
counted from when the request was sent, is not valid: the queue is not pulled, consumed or committed. The same applies
as soon as the connection to a broker ends, because the broker may have been restarted, and brokers forget their locks
in a restart. Another member may have had the queue before such a lock is confirmed again; the committed offset at the
broker shows it. A restarted broker would also give a queue to the first member that asks, although a listener of its
previous owner may still be running. So members ask at once for the locks that they had, and a little later for others.
Plays the part of lock, lockAll, unlock and unlockAll in RebalanceImpl.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Protocol

import attrs
import trio

from rocketpy.client.api import group as group_api
from rocketpy.consumer.locks.lock_refusals import LockRefusals, LockStatus
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

__all__ = ["LockOwner", "LockSettings", "QueueLocks"]

logger = get_logger(__name__)

ASK_AGAIN_AFTER = 1.0
"""Seconds between two requests while a lock is not confirmed."""
OTHERS_FIRST = 5.0
"""Seconds after reconnecting to a broker until this member asks it for locks that it did not have before. Other members
need up to three seconds to reconnect, and one more to ask for theirs."""
TIMEOUT = 3.0
_NEVER = float("-inf")


class LockOwner(Protocol):
    """What uses the locks."""

    def lock_counts(self, queue: MessageQueue, until: float) -> None:
        """The lock of a queue is valid until a time of trio's clock; it is not valid if that time is over."""
        ...

    def lock_lost(self, queue: MessageQueue) -> None:
        """Another member has the lock of a queue, or has had it."""
        ...

    async def is_ours_still(self, queue: MessageQueue) -> bool:
        """Whether no other member has consumed the queue further than this consumer.

        Raises:
            RocketMQError: the broker could not be asked.
        """
        ...


class LockSettings(Protocol):
    """The settings of a consumer that are read here."""

    @property
    def group(self) -> str:
        """The consumer group."""
        ...

    @property
    def lock_interval(self) -> float:
        """Seconds after which a lock is renewed."""
        ...

    @property
    def lock_max_live_time(self) -> float:
        """Seconds for which a lock is valid, from when the request was sent."""
        ...


@attrs.define
class _Lock:
    """The lock of one queue.

    Attributes:
        until: when it expires, on trio's clock.
        counting: whether it is valid until then; False while it is in doubt.
    """

    until: float
    counting: bool = True


class QueueLocks:
    """The locks of one consumer.

    Args:
        client: how to reach brokers.
        config: the group, and how long locks are valid.
        owner: is told of changes.

    Attributes:
        refusals: the locks that other members have.
    """

    def __init__(self, client: MQClientInstance, config: LockSettings, owner: LockOwner) -> None:
        self._client = client
        self._config = config
        self._group = config.group
        self._owner = owner
        self._locks: dict[MessageQueue, _Lock] = {}
        self.refusals = LockRefusals(client, config.group)
        self._unanswered: set[MessageQueue] = set()
        """Queues whose locks were asked for, without an answer: the broker may have locked them nevertheless."""
        self._watched: dict[str, Connection] = {}
        """By broker name, the connection over which the broker has confirmed locks."""
        self._ended: set[str] = set()
        """Brokers whose connection has ended and that have not been reached since."""
        self._others_until: dict[str, float] = {}
        """By broker name, until when other members ask first."""
        self._unsure: set[str] = set()
        self._asking: defaultdict[str, trio.Lock] = defaultdict(trio.Lock)
        self._wanted = trio.Event()
        self._changed = trio.Event()

    # --- looking ----------------------------------------------------------------------------------------

    def counts(self, queue: MessageQueue) -> bool:
        """Whether this consumer holds a valid lock on a queue."""
        lock = self._locks.get(queue)
        return lock is not None and lock.counting and trio.current_time() < lock.until

    def has(self, queue: MessageQueue) -> bool:
        """Whether a broker has given this consumer the lock of a queue, which may be in doubt by now. It is renewed."""
        return queue in self._locks

    async def wait_counts(self, queue: MessageQueue) -> None:
        """Wait until this consumer holds a valid lock on a queue."""
        while not self.counts(queue):
            await self.wait_change()

    async def wait_change(self) -> None:
        """Wait until a broker has given or renewed a lock, or a lock is lost or given back."""
        await self._changed.wait()

    def note_change(self) -> None:
        """Wake those that wait for a change."""
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def look(self, now: float) -> dict[MessageQueue, LockStatus]:
        """The status of each lock that is held or wanted. Thread-safe."""
        known: dict[MessageQueue, LockStatus] = {}
        for queue, lock in tuple(self._locks.items()):
            left = max(0.0, lock.until - now) if lock.counting else 0.0
            holder = self._client.client_id if left > 0 else None
            known[queue] = LockStatus(held=left > 0, expires_in=left, refused_for=None, free_in=None, holder=holder)
        return known | self.refusals.look(now)

    def held(self) -> set[MessageQueue]:
        """The queues that brokers have locked, or may have locked."""
        return {*self._locks, *self._unanswered}

    # --- locking and unlocking --------------------------------------------------------------------------

    async def take(self, queues: Collection[MessageQueue]) -> list[RocketMQError]:
        """Ask for the locks of queues, with one request to each broker.

        Returns:
            Why some were not given; `counts` tells which ones were.
        """
        failures: list[RocketMQError] = []

        async def ask(name: str) -> None:
            wanted = [queue for queue in queues if queue.broker_name == name]
            try:
                await self._let_others_ask(name, wanted[0])
                await self._ask(name, wanted, new=True)
            except RocketMQError as error:
                failures.append(error)
            refusal = self.refusals.error(name, wanted)
            if refusal is not None:
                failures.append(refusal)

        await side_by_side(ask, sorted({queue.broker_name for queue in queues}))
        return failures

    async def _let_others_ask(self, name: str, queue: MessageQueue) -> None:
        """Refuse to ask a broker for new locks soon after the connection to it has ended.

        Raises:
            QueueLockedError: it is too early.
            RocketMQError: the broker cannot be reached.
        """
        if name in self._ended:
            self._watch(name, await self._client.pool.get(self._master(queue), timeout=TIMEOUT))
        left = self._others_until.get(name, 0.0) - trio.current_time()
        if left > 0:
            raise QueueLockedError(
                f"{name} may have been restarted, and may have forgotten its locks: other members of {self._group} get "
                f"{left:.0f} s more to lock their queues again before this one asks for new locks"
            )

    def forget(self, queues: Iterable[MessageQueue]) -> None:
        """Forget queues without unlocking them."""
        for queue in queues:
            self._locks.pop(queue, None)
            self.refusals.forget(queue)
            self._unanswered.discard(queue)
        self.note_change()

    async def give_back(self, queues: Collection[MessageQueue]) -> None:
        """Unlock queues, with one request to each broker, and forget them.

        A broker that is not reached frees them by itself after a while.
        """
        held = self.held()
        ours = [queue for queue in queues if queue in held]
        self.forget(queues)

        async def unlock(name: str) -> None:
            mine = [queue for queue in ours if queue.broker_name == name]
            try:
                async with self._asking[name]:
                    address = self._master(mine[0])
                    pool, client_id = self._client.pool, self._client.client_id
                    await group_api.unlock_batch(pool, address, self._group, client_id, mine, timeout=TIMEOUT)
            except RocketMQError as error:
                logger.debug("the locks of %s at %s expire by themselves: %s", self._group, name, error)

        await side_by_side(unlock, sorted({queue.broker_name for queue in ours}))

    # --- renewing ---------------------------------------------------------------------------------------

    def _doubt(self, broker_name: str) -> None:
        """The connection to a broker has ended: its locks are not valid until it has confirmed them."""
        for queue, lock in self._locks.items():
            if queue.broker_name == broker_name and lock.counting:
                lock.counting = False
                self._owner.lock_counts(queue, _NEVER)
        self._wanted.set()

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Renew every lock in time."""
        try:
            await self._renew_service()
        finally:
            for name in list(self._watched):
                self._unwatch(name)

    @trio.lowlevel.enable_ki_protection
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
        """Seconds until the next renewal; sooner if a lock is about to expire because a renewal failed."""
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
        """Note that locks have expired, so that consuming has stopped. Logged once until the broker confirms again."""
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
        """Close the connection, so that commits still on their way cannot arrive after another member has the queues.

        Over this connection, the broker has not answered a lock request for as long as a lock is valid.
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
        """Ask a broker for the locks of some of its queues: `new` ones, or held ones to renew.

        Raises:
            RocketMQError: the broker has not answered, or the connection ended.
        """
        async with self._asking[name]:  # or an unlock could overtake a lock of the same queue, or the other way round
            wanted = [queue for queue in queues if new or queue in self._locks]
            if not wanted:
                return
            address = self._master(wanted[0])
            pool, client_id = self._client.pool, self._client.client_id
            connection = await pool.get(address, timeout=TIMEOUT)
            asked = trio.current_time()
            self._unanswered.update(wanted)
            given = await group_api.lock_batch(pool, address, self._group, client_id, wanted, timeout=TIMEOUT)
            if pool.nowait(address) is not connection:
                raise ConnectionLostError(f"the connection to {address} ended while it locked queues", address=address)
            self._watch(name, connection)
        self._unanswered.difference_update(wanted)
        for queue in wanted:
            if queue not in given:
                self.refusals.note(queue, asked)
                self._lose(queue)
            elif new or queue in self._locks:
                self.refusals.forget(queue)
                await self._given(queue, asked)

    def _watch(self, name: str, connection: Connection) -> None:
        """Watch for the end of the connection over which a broker has confirmed locks."""
        if self._watched.get(name) is not connection:
            self._unwatch(name)
            if name in self._ended:
                self._ended.discard(name)
                self._others_until[name] = trio.current_time() + OTHERS_FIRST
            self._watched[name] = connection
            connection.add_close_callback(self._note_end)

    def _unwatch(self, name: str) -> None:
        connection = self._watched.pop(name, None)
        if connection is not None:
            connection.drop_close_callback(self._note_end)

    def _note_end(self, connection: Connection) -> None:
        for name in [name for name, watched in self._watched.items() if watched is connection]:
            del self._watched[name]
            self._ended.add(name)
            self._doubt(name)

    def _lose(self, queue: MessageQueue) -> None:
        if self._locks.pop(queue, None) is not None:
            self._owner.lock_lost(queue)
            self.note_change()

    async def _given(self, queue: MessageQueue, asked: float) -> None:
        lock = self._locks.setdefault(queue, _Lock(asked + self._config.lock_max_live_time))
        if not lock.counting or asked >= lock.until:
            # Another member may have had the lock in between.
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
        self.note_change()

    def _master(self, queue: MessageQueue) -> str:
        address = self._client.routes.broker_address(self._client.routes.broker_name(queue))
        if address is None:
            raise BrokerUnreachableError(
                f"the broker {queue.broker_name} of {queue} has no master now, and only the master can lock its queues",
                topic=queue.topic,
            )
        return address
