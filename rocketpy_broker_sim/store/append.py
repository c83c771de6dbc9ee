"""Putting messages: check, find the place in queue and log, encode with that place inside, gather, write together.

A put only computes and encodes. The records of many puts are written by one commit, and wait here as requests for the
dispatcher. Plays the part of CommitLog.putMessage, MessageExtEncoder and DefaultAppendMessageCallback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, count, repeat
from operator import add
from typing import TYPE_CHECKING

from rocketpy.errors import LocalProtocolError, StoreError
from rocketpy.wire.batch_columns import BatchColumns, columns_of
from rocketpy.wire.names import RETRY_PREFIX, TOPIC_MAX_LENGTH, is_valid_stored_topic
from rocketpy.wire.properties import CRC_PROPERTY_SIZE, MAX_PROPERTIES_SIZE, delete_property
from rocketpy.wire.record import (
    encode_batch_records,
    encode_record,
    encode_run_records,
    fill_crc_property,
    record_size,
    reserve_crc_property,
)
from rocketpy.wire.sysflag import BORN_HOST_V6, STORE_HOST_V6, TRANSACTION_MASK
from rocketpy.wire.words import int_array, long_array
from rocketpy_broker_sim.store.delay_levels import DelayLevels
from rocketpy_broker_sim.store.put_result import (
    IncomingMessage,
    MessageRun,
    PlacedRun,
    PutMessageResult,
    PutMessageStatus,
)
from rocketpy_broker_sim.store.queue.consume_queue import MAX_QUEUE_ID, UNIT
from rocketpy_broker_sim.store.queue.dispatch_request import DispatchRequest, is_consumable, tags_code_of
from rocketpy_broker_sim.store.queue.units import pack_units

if TYPE_CHECKING:
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.clock import StoredClock
    from rocketpy_broker_sim.store.dispatch import QueuedRequest
    from rocketpy_broker_sim.store.log.commit_log import CommitLog
    from rocketpy_broker_sim.store.queue.consume_queue import ConsumeQueue
    from rocketpy_broker_sim.store.queue.table import QueueTable

__all__ = ["MessageWriter"]

RESERVED_BEYOND_BODY = 64 * 1024
"""How much larger than the largest body a record may be."""
TOGETHER = 1024
"""Records of a batch that are brought into their queue at a time; Spark's sink sends no more in a frame."""
ITEM_OVERHEAD = 22
"""Bytes of a batch item beside its body and properties."""
_CRC_NAME = "__CRC32#"
_HOSTS_V6 = BORN_HOST_V6 | STORE_HOST_V6
_SEPARATOR = 2
_OK = PutMessageStatus.PUT_OK


class MessageWriter:
    """Gathers records, and the requests that go to the dispatcher once they are written."""

    def __init__(
        self,
        config: MessageStoreConfig,
        commit_log: CommitLog,
        queues: QueueTable,
        clock: StoredClock,
    ) -> None:
        """Nothing is gathered yet.

        Args:
            config: Sizes and limits.
            commit_log: Takes the records.
            queues: Give offsets.
            clock: Gives the stored times.
        """
        self._config = config
        self._log = commit_log
        self._queues = queues
        self._levels = DelayLevels(config.message_delay_level)
        self._with_crc = config.enabled_append_prop_crc
        self._gathered: list[QueuedRequest] = []
        self._clock = clock

    # --- putting

    def put(self, message: IncomingMessage) -> PutMessageResult:
        """Give a message its place. It counts once the commit that follows has returned."""
        queue = self._queues.find((message.topic, message.queue_id)) or self._new_queue(message)
        if queue is None:
            return PutMessageResult(self._why_no_queue(message))
        body = message.body
        properties = self._closed(self._encoded(message.properties))
        sys_flag = _with_host_bits(message)
        size = record_size(queue.topic_bytes, body, properties, sys_flag)
        refusal = self._judge(len(body), len(properties), size, bounded=not message.was_stored)
        if refusal is not None:
            return PutMessageResult(refusal)
        position = self._log.reserve(size)
        timestamp = self._clock.now_ms()
        offset = queue.next_offset if is_consumable(sys_flag) else 0
        try:
            self._add(queue, message, body, properties, sys_flag, offset, position, size, timestamp)
        except LocalProtocolError:
            self._log.position = position
            return PutMessageResult(PutMessageStatus.MESSAGE_ILLEGAL)
        except BaseException:
            self._log.position = position  # nothing fills the place that was reserved
            raise
        return PutMessageResult(_OK, position, offset, size, timestamp, message.store_host)

    def put_run(self, run: MessageRun) -> PlacedRun | None:
        """Give messages of one sender their places; None, and nothing is done, unless all of it is as usual."""
        found = {queue_id: self._queues.find((run.topic, queue_id)) for queue_id in set(run.queue_ids)}
        queues = {queue_id: queue for queue_id, queue in found.items() if queue is not None and not queue.is_schedule}
        sys_flag = _with_host_bits(run)
        if len(queues) < len(found) or not queues or not is_consumable(sys_flag):
            return None
        topic = queues[run.queue_ids[0]].topic_bytes
        properties = [reserve_crc_property(text) for text in run.properties] if self._with_crc else run.properties
        fixed = record_size(topic, b"", b"", sys_flag)
        sizes = [fixed + len(body) + len(text) for body, text in zip(run.bodies, properties, strict=True)]
        if self._judge(max(map(len, run.bodies)), max(map(len, properties)), max(sizes)) is not None:
            return None
        return self._add_run(run, queues, properties, sizes, sys_flag) if sum(sizes) <= self._log.room else None

    def _add_run(
        self,
        run: MessageRun,
        queues: Mapping[int, ConsumeQueue],
        properties: Sequence[bytes],
        sizes: Sequence[int],
        sys_flag: int,
    ) -> PlacedRun | None:
        """Encode the records of a run for their places in the file that is being filled, and gather them."""
        timestamp = self._clock.now_ms()
        end = self._log.position + sum(sizes)
        positions = list(accumulate(sizes[:-1], initial=self._log.position))
        following = {queue_id: count(queue.next_offset) for queue_id, queue in queues.items()}
        offsets = [next(following[queue_id]) for queue_id in run.queue_ids]
        try:
            records = encode_run_records(
                run.bodies,
                topic=queues[run.queue_ids[0]].topic_bytes,
                properties=properties,
                queue_ids=run.queue_ids,
                queue_offsets=offsets,
                positions=positions,
                sizes=sizes,
                flag=run.flag,
                sys_flag=sys_flag,
                born_timestamps=run.born_timestamps,
                born_host=run.born_host,
                store_timestamp=timestamp,
                store_host=run.store_host,
                reconsume_times=run.reconsume_times,
                prepared=run.prepared,
            )
        except LocalProtocolError:
            return None
        if self._with_crc:
            records, properties = list(map(fill_crc_property, records)), self._without_room(properties)
        codes = [tags_code_of(text) if b"TAGS" in text else 0 for text in properties]
        self._log.reserve(end - self._log.position)
        self._log.add_all(records)
        if queues[run.queue_ids[0]].is_waiting:  # as all queues of its topic
            self._clock.mark(positions[0], timestamp)
        places = map(queues.__getitem__, run.queue_ids)
        units = map(UNIT.pack, positions, sizes, codes)
        same = repeat(timestamp), repeat(sys_flag)
        # One value behind the other, as the tuple of a request has them; `zip` of one column makes a tuple of each.
        rows = zip(places, offsets, positions, sizes, zip(codes), *same, zip(properties), units)  # noqa: B905
        self._gathered.extend(map(DispatchRequest._make, rows))
        for queue_id, offset in zip(run.queue_ids, offsets, strict=True):
            queues[queue_id].next_offset = offset + 1
        return PlacedRun(positions, offsets, end)

    def put_batch(self, message: IncomingMessage) -> PutMessageResult:
        """Give the items of a batch consecutive places, all in one file; they count together or not at all."""
        queue = self._queues.find((message.topic, message.queue_id)) or self._new_queue(message)
        if queue is None:
            return PutMessageResult(self._why_no_queue(message))
        if not message.batch:
            return PutMessageResult(PutMessageStatus.MESSAGE_ILLEGAL)
        sys_flag = _with_host_bits(message)
        if sys_flag & TRANSACTION_MASK:
            return PutMessageResult(PutMessageStatus.MESSAGE_ILLEGAL)
        batch = message.batch if isinstance(message.batch, BatchColumns) else columns_of(message.batch)
        flags, bodies, sent = batch.flags, batch.bodies, batch.properties
        properties = self._stored_properties(sent, self._encoded(message.properties))
        body_sizes, text_sizes = list(map(len, bodies)), list(map(len, properties))
        fixed = record_size(queue.topic_bytes, b"", b"", sys_flag)
        sizes = [fixed + size for size in map(add, body_sizes, text_sizes)]
        refusal = self._judge_batch(body_sizes, sum(map(len, sent)), max(text_sizes), sizes)
        if refusal is not None:
            return PutMessageResult(refusal)
        alike = batch.have_same_names
        return self._add_batch(queue, message, flags, bodies, properties, sizes, sys_flag, alike=alike)

    def _add_batch(
        self,
        queue: ConsumeQueue,
        message: IncomingMessage,
        flags: Sequence[int],
        bodies: Sequence[bytes],
        properties: list[bytes],
        sizes: list[int],
        sys_flag: int,
        *,
        alike: bool,
    ) -> PutMessageResult:
        total = sum(sizes)
        begin = self._log.reserve(total)
        timestamp = self._clock.now_ms()
        first = queue.next_offset
        try:
            records = encode_batch_records(
                bodies,
                topic=queue.topic_bytes,
                flags=flags,
                properties=properties,
                sizes=sizes,
                queue_id=message.queue_id,
                queue_offset=first,
                physical_offset=begin,
                sys_flag=sys_flag,
                born_timestamp=message.born_timestamp,
                born_host=message.born_host,
                store_timestamp=timestamp,
                store_host=message.store_host,
                reconsume_times=message.reconsume_times,
                prepared_transaction_offset=message.prepared_transaction_offset,
            )
            if self._with_crc:
                records = list(map(fill_crc_property, records))
            positions = list(accumulate(sizes[:-1], initial=begin))
            self._gather_batch(queue, positions, sizes, properties, timestamp, sys_flag, alike=alike)
        except LocalProtocolError:
            self._log.position = begin
            return PutMessageResult(PutMessageStatus.MESSAGE_ILLEGAL)
        except BaseException:
            self._log.position = begin  # nothing fills the place that was reserved
            raise
        self._log.add_all(records)
        return PutMessageResult(_OK, begin, first, total, timestamp, message.store_host, positions)

    def _gather_batch(
        self,
        queue: ConsumeQueue,
        positions: list[int],
        sizes: list[int],
        properties: Sequence[bytes],
        timestamp: int,
        sys_flag: int,
        *,
        alike: bool,
    ) -> None:
        """Note the records of a batch for the dispatcher; `alike` when their properties have the same names."""
        properties = self._without_room(properties)
        if queue.is_schedule:
            self._clock.mark(positions[0], timestamp)
            codes = [self._levels.deliver_time(text, timestamp) for text in properties]
        elif b"TAGS" in (properties[0] if alike else b"".join(properties)):
            codes = [tags_code_of(text) for text in properties]
        else:
            codes = [0] * len(properties)
        units = pack_units(long_array(positions), int_array(sizes), codes)
        for at in range(0, len(sizes), TOGETHER):
            part = slice(at, at + TOGETHER)
            request = DispatchRequest(
                queue,
                queue.next_offset + at,
                positions[at],
                sum(sizes[part]),
                codes[part],
                timestamp,
                sys_flag,
                properties[part],
                units[at * UNIT.size : (at + TOGETHER) * UNIT.size],
            )
            self._gathered.append(request)
        queue.next_offset += len(sizes)

    def _add(
        self,
        queue: ConsumeQueue,
        message: IncomingMessage,
        body: bytes,
        properties: bytes,
        sys_flag: int,
        offset: int,
        position: int,
        size: int,
        timestamp: int,
    ) -> None:
        """Encode one record for its place and gather it."""
        record = encode_record(
            topic=queue.topic_bytes,
            body=body,
            properties=properties,
            queue_id=message.queue_id,
            flag=message.flag,
            queue_offset=offset,
            physical_offset=position,
            sys_flag=sys_flag,
            born_timestamp=message.born_timestamp,
            born_host=message.born_host,
            store_timestamp=timestamp,
            store_host=message.store_host,
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=message.prepared_transaction_offset,
        )
        if self._with_crc:
            record, properties = fill_crc_property(record), properties[:-CRC_PROPERTY_SIZE]
        if queue.is_waiting:
            self._clock.mark(position, timestamp)
        if queue.is_schedule:
            code = self._levels.deliver_time(properties, timestamp)
        elif message.tags_code is None:
            code = tags_code_of(properties)
        else:
            code = message.tags_code
        unit = UNIT.pack(position, size, code)
        request = DispatchRequest(queue, offset, position, size, (code,), timestamp, sys_flag, (properties,), unit)
        self._log.add(record)
        self._gathered.append(request)
        if is_consumable(sys_flag):
            queue.next_offset = offset + 1

    # --- checking

    def open_queue(self, message: IncomingMessage, *, bounded: bool = True) -> PutMessageStatus | None:
        """Make the queue of a message that will be put later. Returns why it cannot be, None when it is there.

        Args:
            message: the message.
            bounded: False for what was taken long ago: its queue is made however many there are.
        """
        if self._queues.find((message.topic, message.queue_id)) or self._new_queue(message, bounded=bounded):
            return None
        return self._why_no_queue(message)

    def _new_queue(self, message: IncomingMessage, *, bounded: bool = True) -> ConsumeQueue | None:
        """The queue of a first message; None when no queue may have this name or number, or there are too many."""
        if not self._may_be_queue(message) or (bounded and len(self._queues) >= self._config.max_queues):
            return None
        return self._queues.open(message.topic, message.queue_id)

    def _may_be_queue(self, message: IncomingMessage) -> bool:
        topic = message.topic
        long = self._config.auto_message_version_on_topic_len and topic.startswith(RETRY_PREFIX)
        allowed = is_valid_stored_topic(topic) and (len(topic) <= TOPIC_MAX_LENGTH or long)
        return allowed and 0 <= message.queue_id <= MAX_QUEUE_ID

    def _why_no_queue(self, message: IncomingMessage) -> PutMessageStatus:
        if self._may_be_queue(message):
            return PutMessageStatus.TOO_MANY_QUEUES
        return PutMessageStatus.MESSAGE_ILLEGAL

    def _judge(
        self, body_size: int, properties_size: int, size: int, *, bounded: bool = True
    ) -> PutMessageStatus | None:
        """Why a record may not be stored; None when it may. Without `bounded`, maxMessageSize does not apply."""
        if properties_size > MAX_PROPERTIES_SIZE:
            return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
        limit = self._config.max_message_size
        if bounded and (body_size > limit or size > limit + RESERVED_BEYOND_BODY):
            return PutMessageStatus.MESSAGE_ILLEGAL
        if not self._log.fits(size):
            return PutMessageStatus.MESSAGE_ILLEGAL
        return None

    def _judge_batch(
        self, bodies: list[int], sent_properties: int, longest: int, sizes: list[int]
    ) -> PutMessageStatus | None:
        """Why a batch may not be stored: as sent it is too long, or one of its records is; None when it may.

        Args:
            bodies: bytes of each body.
            sent_properties: bytes of all properties as they were sent.
            longest: bytes of the longest properties as they are stored.
            sizes: bytes of each record.
        """
        sent, total = sum(bodies) + sent_properties + ITEM_OVERHEAD * len(bodies), sum(sizes)
        if sent > self._config.max_message_size or not self._log.fits(total):
            return PutMessageStatus.MESSAGE_ILLEGAL
        # No body is longer than all of them together; a record is too long only where all of them are.
        refusal = self._judge(0, longest, total)
        return None if refusal is None else self._judge(0, longest, max(sizes))

    def _encoded(self, text: str | bytes) -> bytes:
        """The bytes of a property text; a checksum that a sender put there would be taken for ours."""
        if isinstance(text, bytes):
            return text
        if self._with_crc and _CRC_NAME in text:
            text = delete_property(text, _CRC_NAME)
        return text.encode("utf-8", "replace")

    def _closed(self, properties: bytes) -> bytes:
        """The properties as they are stored: with room for the checksum when records carry one."""
        return reserve_crc_property(properties) if self._with_crc else properties

    def _without_room(self, properties: Sequence[bytes]) -> Sequence[bytes]:
        """Properties as they were before `reserve_crc_property`: keys are hashed together if only pairs are there."""
        return [text[:-CRC_PROPERTY_SIZE] for text in properties] if self._with_crc else properties

    def _stored_properties(self, sent: Sequence[bytes], added: bytes) -> list[bytes]:
        """The properties of each item with the broker's behind them."""
        own = list(sent)
        if self._with_crc:
            own = [self._encoded(text.decode("utf-8", "replace")) for text in own]
        if added:
            own = [text + added if not text or text[-1] == _SEPARATOR else b"%b\x02%b" % (text, added) for text in own]
        return [self._closed(text) for text in own] if self._with_crc else own

    # --- writing

    def commit(self) -> Sequence[QueuedRequest]:
        """Write what has gathered.

        Returns:
            The requests of the records that were written, in log order.

        Raises:
            StoreError: The disk refused; none of the gathered messages counts, their offsets will be given again.
        """
        gathered = self._gathered
        if not gathered:
            return ()
        self._gathered = []
        try:
            self._log.commit(gathered[-1].store_timestamp)
        except StoreError:
            for request in reversed(gathered):
                if is_consumable(request.sys_flag):
                    request.queue.next_offset = request.queue_offset
            raise
        return gathered


def _with_host_bits(message: IncomingMessage | MessageRun) -> int:
    """The flag word, saying how long the hosts really are."""
    sys_flag = message.sys_flag & ~_HOSTS_V6
    if len(message.born_host) != 8:
        sys_flag |= BORN_HOST_V6
    if len(message.store_host) != 8:
        sys_flag |= STORE_HOST_V6
    return sys_flag
