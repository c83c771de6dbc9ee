"""Drives a store and a broker's tables as the broker's services do, and notes what was promised when.

The steps are those of a turn: puts, one commit, the flush where the settings ask for it, the dispatch. Times are
counted in operations of the disk, so that it can be said later what had been promised when the power went.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import attrs

from rocketpy.errors import StoreError
from rocketpy.message import PropertyName
from rocketpy.wire.batch import BatchItem
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.names import SCHEDULE_TOPIC
from rocketpy.wire.properties import encode_properties
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.delays.delay import to_delay_topic
from rocketpy_broker_sim.config import BrokerConfig, FlushDiskType, MessageStoreConfig
from rocketpy_broker_sim.store.disk.failure import UnknownOutcomeError
from rocketpy_broker_sim.store.disk.mapped_file import MappedFile
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import IncomingMessage, PutMessageResult, PutMessageStatus
from tests.crash.sim_disk import SimDisk

__all__ = ["CLOCK", "Driver", "Save", "Sent", "broker_config"]

CLOCK = 1_700_000_000_000
HOST = bytes([127, 0, 0, 1]) + (10911).to_bytes(4, "big")
GROUP = "group"


@attrs.define(eq=False)
class Sent:
    """A message that was put, and when what was said of it; times are None while it was not said.

    Attributes:
        began: When it was put.
        written: When the store had written it.
        durable: When a flush that covers it had returned.
        failed: When the store said that it was not stored.
        removed: When its topic was about to be deleted, or its file.
        copy_of: For a delivered message: the id of the delayed one.
    """

    id: str
    topic: str
    queue_id: int
    body: bytes
    properties: dict[str, str]
    began: int
    offset: int = -1
    position: int = -1
    end: int = 0
    written: int | None = None
    durable: int | None = None
    failed: int | None = None
    removed: int | None = None
    copy_of: str | None = None


@attrs.define(eq=False)
class Save:
    """A write of a table: what it says, when it began, and when it had reached the disk (None: never)."""

    table: str
    content: Any
    began: int
    done: int | None = None


class Driver:
    """A broker without its services.

    Attributes:
        sent: Every message in the order of the puts.
        saves: Every write of a table.
        visible: (when, topic, queue id, end) of what consumers could read.
        turns: How many steps of a workload were done.
        opened: How often the store was opened.
        has_cleaned: Whether expired files were deleted, or tried to be.
    """

    def __init__(self, disk: SimDisk, config: BrokerConfig, *, name: str = "m", rng: Random | None = None) -> None:
        self.disk = disk
        self.config = config
        self.name = name
        self.rng = rng or Random(0)
        self.sent: list[Sent] = []
        self.saves: list[Save] = []
        self.visible: list[tuple[int, str, int, int]] = []
        self.waiting: list[tuple[Sent, PutMessageResult]] = []
        self.appended: list[Sent] = []
        self.turns = 0
        self.opened = 0
        self.has_cleaned = False
        self.open()

    @property
    def now(self) -> int:
        return len(self.disk.journal or ())

    @property
    def sync(self) -> bool:
        return self.config.store.flush_disk_type is FlushDiskType.SYNC_FLUSH

    # --- opening and closing

    def open(self) -> None:
        self.opened += 1
        self.broker = Broker(self.config, self.disk)
        self.broker.store.clock._seconds = None  # there is no loop whose clock it could ask
        self.store: MessageStore = self.broker.store
        self.broker.recover()
        self.delays = self.broker.delays.schedule._offsets
        self.broker.delays.schedule._commit = self._commit_delivered

    def close(self) -> None:
        """Stop as the broker does."""
        self.save()
        self.store.close()
        self._note_written()
        for each in self.sent:
            if each.written is not None and each.durable is None and self.store._log.failure is None:
                each.durable = self.now

    def reopen(self, *, kill: bool = False) -> None:
        if kill:
            self.store.abandon()
            self.waiting.clear()
            self.appended.clear()
        else:
            self.close()
        self.open()

    # --- messages

    def put(self, topic: str, queue_id: int, size: int = 40, *, delay: int = 0) -> None:
        sent = self._new(topic, queue_id, size)
        properties = dict(sent.properties)
        message = IncomingMessage(
            topic, queue_id, sent.body, encode_properties(properties), born_host=HOST, store_host=HOST
        )
        if delay:
            to_delay_topic(message, properties, delay, self.broker.delays.level_count)
            sent.topic, sent.queue_id, sent.properties = message.topic, message.queue_id, properties
        self._note([sent], self.store.put(message))

    def put_batch(self, topic: str, queue_id: int, sizes: list[int]) -> None:
        lot = [self._new(topic, queue_id, size) for size in sizes]
        items = [BatchItem(0, each.body, encode_properties(each.properties).encode()) for each in lot]
        message = IncomingMessage(topic, queue_id, b"", born_host=HOST, store_host=HOST, batch=items)
        self._note(lot, self.store.put_batch(message))

    def _new(self, topic: str, queue_id: int, size: int) -> Sent:
        id_ = f"{self.name}{len(self.sent)}"
        body = (id_.encode() + b":").ljust(size, id_[-1:].encode())
        properties = {PropertyName.KEYS: id_, PropertyName.TAGS: f"T{len(self.sent) % 3}"}
        sent = Sent(id_, topic, queue_id, body, properties, self.now)
        self.sent.append(sent)
        return sent

    def _note(self, lot: list[Sent], result: PutMessageResult) -> None:
        if result.status is not PutMessageStatus.PUT_OK:
            for each in lot:
                each.failed = self.now
            return
        for index, each in enumerate(lot):
            each.offset = result.queue_offset + index
            each.position = result.offsets[index] if result.offsets else result.physical_offset
            each.end = result.end
            self.waiting.append((each, result))

    def turn(self) -> None:
        """Write what was put, and let consumers see it; what the disk must have first is flushed."""
        waiting, self.waiting = self.waiting, []
        try:
            self.store.commit_pending()
        except UnknownOutcomeError:
            return  # the store cannot take it back either, and says that nobody knows
        except StoreError:
            for each, _ in waiting:
                each.failed = self.now
            return
        self.appended += [each for each, _ in waiting]
        self._note_written()
        if self.sync:
            self.flush_log()
        self.reput()

    def _note_written(self) -> None:
        """What has reached the files: with buffers before them that is later than the answer."""
        for each in self.appended:
            if each.end <= self.store.written_position:
                each.written = self.now
        self.appended = [each for each in self.appended if each.written is None]

    def reput(self) -> None:
        try:
            self.store.reput()
        except StoreError:
            return
        for topic in self.store.reads.topics():
            for queue_id in self.store.reads.queue_ids(topic):
                self.visible.append((self.now, topic, queue_id, self.store.reads.max_offset(topic, queue_id)))

    def flush_log(self) -> None:
        self._flush(self.store.flushing.commit_log.flush)

    def flush(self) -> None:
        self.store.flushing.prepare()
        self._flush(self.store.flushing.flush_all)

    def _flush(self, flush: Any) -> None:
        try:
            flush()
        except StoreError:
            return
        finally:
            self._note_written()
        for each in self.sent:
            if each.written is not None and each.durable is None and each.end <= self.store.flushed_position:
                each.durable = self.now

    # --- delayed messages

    def deliver(self) -> None:
        """Put what is due where it was meant to go, and write how far that went."""
        for level in range(1, self.broker.delays.level_count + 1):
            before = self.delays.get(level)
            waiting = [each for each in self.sent if each.topic == SCHEDULE_TOPIC and each.queue_id == level - 1]
            begun = [each for each in waiting if each.offset >= before]
            copies = [self._copy(each) for each in begun]
            put = self.store.put
            self.store.put = partial(self._put_copy, put, copies)  # type: ignore[method-assign]
            try:
                self.broker.delays.schedule._deliver(level)
            except StoreError:
                return
            finally:
                self.store.put = put  # type: ignore[method-assign]

    def _commit_delivered(self) -> None:
        copies = [each for each in self.sent if each.copy_of is not None and each.offset >= 0 and each.written is None]
        try:
            self.store.commit_pending()
        except StoreError:
            for each in copies:
                each.offset = -1
            raise
        for each in copies:
            each.written = self.now
        self.reput()

    def _copy(self, each: Sent) -> Sent:
        known = next((other for other in self.sent if other.copy_of == each.id), None)
        if known is None:
            topic, queue_id = each.properties[PropertyName.REAL_TOPIC], int(each.properties[PropertyName.REAL_QUEUE_ID])
            known = Sent(f"copy of {each.id}", topic, queue_id, each.body, each.properties, self.now, copy_of=each.id)
            self.sent.append(known)
        return known

    def _put_copy(self, put: Any, copies: list[Sent], message: IncomingMessage) -> PutMessageResult:
        result = put(message)
        if result.status is PutMessageStatus.PUT_OK:
            for each in copies:
                if each.body == message.body:
                    each.offset, each.position, each.end = result.queue_offset, result.physical_offset, result.end
        return result

    # --- cleaning

    def _remove(self, file: MappedFile) -> None:
        """As the broker's service does it: what could not be removed stays."""
        try:
            self.store.retention.remove(file)
        except StoreError:
            self.store.retention.put_back_log_file(file)
            raise

    def clean(self) -> None:
        """Take out the oldest file of the log, and what only led there."""
        self.has_cleaned = True
        retention = self.store.retention
        file = retention.take_log_file()
        if file is None:
            return
        for each in self.sent:
            if each.written is not None and each.position < file.end and each.removed is None:
                each.removed = self.now
        try:
            self._remove(file)
            for queue in retention.queues():
                retention.correct_queue(queue)
                while (folder := retention.delete_queue_file(queue)) is not None:
                    retention.settle(folder)
            while (index := retention.take_index_file()) is not None:
                retention.remove_index_file(index)
        except StoreError:
            return

    # --- tables

    def create_topic(self, name: str, queues: int = 2) -> None:
        self.broker.topics.put(TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues))

    def delete_topic(self, name: str) -> None:
        for each in self.sent:
            if each.topic == name and each.removed is None:
                each.removed = self.now
        self.visible.append((self.now, name, -1, 0))
        self.broker.topics.delete(name)
        self.broker.offsets.remove_topic(name)
        try:
            self.store.delete_topics([name])
        except StoreError:
            return

    def commit_offset(self, topic: str, queue_id: int) -> None:
        """A consumer has finished everything that it can see."""
        self.broker.offsets.commit(GROUP, topic, queue_id, self.store.reads.max_offset(topic, queue_id))

    def save(self) -> None:
        """Write the tables that have changed; the offsets of delayed messages after the messages they pass."""
        for table in (self.broker.topics, self.broker.groups, self.broker.offsets):
            self._persist(table)
        if self.delays.changed:
            self.flush_log()
            if self.store._log.failure is None:
                self._persist(self.delays)

    def _persist(self, table: Any) -> None:
        if not table.changed:
            return
        save = Save(table.file_name, content_of(table), self.now)
        self.saves.append(save)
        try:
            table.persist()
        except StoreError:
            return
        save.done = self.now


def content_of(table: Any) -> Any:
    """What a table holds, in a form that can be compared."""
    if table.file_name == "topics.json":
        return frozenset(table.all())
    if table.file_name == "consumerOffset.json":
        return {(key, queue): at for key, queues in table.table().items() for queue, at in queues.items()}
    if table.file_name == "delayOffset.json":
        return {level: table.get(level) for level in table.levels()}
    return None


def broker_config(**settings: Any) -> BrokerConfig:
    """A broker whose files are so small that a few messages roll them."""
    store = {
        "mapped_file_size_commit_log": 4096,
        "mapped_file_size_consume_queue": 200,
        "max_hash_slot_num": 10,
        "max_index_num": 40,
        "message_index_safe": True,  # so that every flush takes the index along
        "enabled_append_prop_crc": True,
        "memory_size": 1 << 30,
        "message_delay_level": "1s 5s",
        **settings,
    }
    own = {name: store.pop(name) for name in attrs.fields_dict(BrokerConfig) if name in store}
    return BrokerConfig(store=MessageStoreConfig(**store), trace_topic_enable=False, **own)
