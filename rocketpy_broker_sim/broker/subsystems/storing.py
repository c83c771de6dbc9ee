"""The store and all around it: turns, flushes, file allocation, cleaning. Plays DefaultMessageStore's services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import trio

from rocketpy.services import run_blocking
from rocketpy_broker_sim.broker.changes import Changes
from rocketpy_broker_sim.broker.flushing.flusher import StoreFlusher
from rocketpy_broker_sim.broker.flushing.gate import Durability
from rocketpy_broker_sim.broker.flushing.pool import TransientCommit
from rocketpy_broker_sim.broker.flushing.services import GroupCommit, LogFlush, QueueFlush
from rocketpy_broker_sim.broker.metrics.parts import metrics_of_store
from rocketpy_broker_sim.broker.putting.put_times import PutTimes
from rocketpy_broker_sim.broker.putting.store_stage import refusal_of
from rocketpy_broker_sim.broker.reput import ReputService
from rocketpy_broker_sim.broker.runtime_info import measures_of_puts, measures_of_store
from rocketpy_broker_sim.broker.subsystem import Service, Subsystem
from rocketpy_broker_sim.broker.turn import Turn
from rocketpy_broker_sim.broker.upkeep.allocation import FileAllocation
from rocketpy_broker_sim.broker.upkeep.cleaning_service import CleaningService
from rocketpy_broker_sim.broker.upkeep.index_catch_up import IndexCatchUpService
from rocketpy_broker_sim.broker.write_conditions import WriteConditions
from rocketpy_broker_sim.config import FlushDiskType
from rocketpy_broker_sim.store.put_result import PutMessageResult, PutMessageStatus
from rocketpy_broker_sim.store.running_flags import RunningFlag

if TYPE_CHECKING:
    from rocketpy.remoting.hooks import RequestHook
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.broker.name_servers.topic_announcement import Announce
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.metrics.metric import Family
    from rocketpy_broker_sim.serving.memory import Account
    from rocketpy_broker_sim.store.message_store import MessageStore
    from rocketpy_broker_sim.store.put_result import IncomingMessage

__all__ = ["Storing"]


class Storing(Subsystem):
    """Takes messages and keeps them.

    Args:
        store: where messages are.
        storage: where the store keeps its files.
        config: the settings.
        announce: calls a function once the name servers know a topic.
        hooks: see every request and its answer.
        account: what answers keep that wait counts there.

    Attributes:
        turn: What requests run in; it stores what they put.
        booted_at: How far the log went when it was recovered.
        gate: What answers to sends wait in.
        changes: What depends on the turn being written.
    """

    def __init__(
        self,
        store: MessageStore,
        storage: Storage,
        config: BrokerConfig,
        announce: Announce,
        hooks: Sequence[RequestHook] = (),
        account: Account | None = None,
    ) -> None:
        settings = config.store
        self.storage = storage
        self.booted_at = 0
        self._config = config
        self.store = store
        self.conditions = WriteConditions(settings, trio.current_time, self.store.pool)
        self.put_times = PutTimes(trio.current_time)
        self.gate = Durability(
            self.store,
            self.put_times,
            sync_timeout=settings.sync_flush_timeout / 1000
            if settings.flush_disk_type is FlushDiskType.SYNC_FLUSH
            else None,
            most=config.send_thread_pool_queue_capacity,
            announce=announce,
            account=account,
        )
        self.changes = Changes()
        self.turn = Turn(self.store, self.gate, self.conditions, self.put_times, hooks, self.changes)
        self.flusher = StoreFlusher(self.store)
        self.cleaning = CleaningService(self.store.retention, settings, self.store.flags)
        self._reput = ReputService(self.store, self.turn)
        self._index = IndexCatchUpService(self.store.index, self.store.index_catch_up)
        self._allocation = FileAllocation(self.store.files_ahead)
        self._transient_commit: TransientCommit | None = None
        if self.store.pool is not None:
            self._transient_commit = TransientCommit(self.store, settings, self.gate, self.turn.make_readable)
        self._log_flush = LogFlush(self.store, self.flusher, settings, self.gate.written)
        self._queue_flush = QueueFlush(self.store, self.flusher, settings, self.gate.written)
        self._group_commit = GroupCommit(self.flusher, self.store, self.gate, self.turn.make_readable)

    # --- putting ---

    def put(self, message: IncomingMessage, *, wait: bool = True) -> PutMessageResult:
        """Put a message, or a batch. It is stored when the turn ends; the answer of the processor waits for that.

        A service that puts outside any request calls `commit` itself.

        Args:
            message: what to put.
            wait: whether the answer has to wait for the disk too, where the settings say so.
        """
        result = self.place(message, wait)
        if result.status is PutMessageStatus.PUT_OK:
            self.turn.depends_on(result.end, wait_for_disk=wait)
        return result

    def place(self, message: IncomingMessage, wait: bool) -> PutMessageResult:
        """Give a message its place; the caller says whose answer depends on it."""
        refusal = self.refusal(wait=wait)
        if refusal is not None:
            return PutMessageResult(refusal)
        return self.store.put(message) if message.batch is None else self.store.put_batch(message)

    def queue_refusal(self, message: IncomingMessage) -> tuple[int, str] | None:
        """The code and the words that refuse another queue to a message that is parked; None when there is room."""
        status = self.store.open_queue(message)
        return refusal_of(status, self._config) if status is PutMessageStatus.TOO_MANY_QUEUES else None

    def refusal(self, *, wait: bool) -> PutMessageStatus | None:
        """Why nothing may be put now whose answer has to wait for the disk, or has not; None when it may."""
        refusal = self.conditions.refusal()
        if refusal is None and wait and self.gate.is_full:
            return PutMessageStatus.TOO_MANY_WAIT
        return refusal

    def commit(self) -> None:
        """Store what was put outside any request.

        Raises:
            StoreError: nothing of it was stored.
        """
        self.turn.commit()

    # --- as a part of the broker ---

    def recover(self) -> None:
        """Read log, queues and index; hold the directory against other brokers."""
        self.store.load()

    def note_boot(self) -> None:
        """Everything has recovered: what comes from here on is new."""
        self.booted_at = self.store.written_position

    def give_back(self) -> None:
        """Close the store in order: it is whole, another part failed."""
        self.store.close()

    def run(self) -> Iterable[Service]:
        """What brings messages on, flushes them, makes room and removes what has expired."""
        yield self._reput.serve
        yield self._index.serve
        yield self._allocation.serve
        yield self.cleaning.serve
        yield self._queue_flush.serve
        if self._transient_commit is not None:
            yield self._transient_commit.serve
        if self.gate.is_synchronous:
            yield self.flusher.thread.serve
            yield self._group_commit.serve
            yield self.gate.serve_deadlines
        else:
            yield self._log_flush.serve

    async def close(self) -> None:
        """Flush everything, and note that the end was in order."""
        await run_blocking(self.store.close)

    def abandon(self) -> None:
        """Leave the files as they are."""
        self.store.abandon()

    def measures(self) -> Mapping[str, str]:
        """How far the log goes, how full the disk is, and how long puts took."""
        return {**measures_of_store(self.store, self.storage), **measures_of_puts(self.put_times, self.conditions)}

    def families(self) -> Iterable[Family]:
        """How far the log goes and is flushed, and how full the disk is."""
        return metrics_of_store(self.store, self.storage, self.gate)

    def problems(self) -> Iterable[str]:
        """Whether messages may be stored and read."""
        flags = self.store.flags
        if flags.has(RunningFlag.DISK_FULL) or flags.has(RunningFlag.QUEUE_DISK_FULL):
            yield f"the disk is full: the store is marked {flags}"
        elif not (flags.is_writable and flags.is_readable):
            yield f"the store takes or gives no messages: it is marked {flags}"
