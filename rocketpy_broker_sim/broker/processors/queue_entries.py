"""The entries of a consume queue, and which of them a group would receive: QUERY_CONSUME_QUEUE. Plays a part of
AdminBrokerProcessor.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rocketpy.wire.bodies.consume_queue import ConsumeQueueData, QueryConsumeQueueResponseBody
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.headers.admin import QueryConsumeQueueRequestHeader
from rocketpy.wire.lenient_json import write_json
from rocketpy_broker_sim.broker.processors.checks import check_group, check_queue_id, check_topic, invalid
from rocketpy_broker_sim.serving.encoding import append_parts

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.bodies.subscription import SubscriptionData
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.admin_views import EntriesView
    from rocketpy_broker_sim.broker.tables.filters import ConsumerFilterData
    from rocketpy_broker_sim.serving.slices import Steps
    from rocketpy_broker_sim.store.queue.consume_queue_ext import ExtEntry

__all__ = ["query_consume_queue"]

_UNITS_A_STEP = 64

_Test = Callable[["ExtEntry"], bool]


def query_consume_queue(broker: EntriesView, connection: Connection, request: RemotingCommand) -> Steps:
    """The requested number of entries of a queue from an offset on, or those up to its end. A sliced processor."""
    header = QueryConsumeQueueRequestHeader.from_ext(request.ext_fields)
    topic, queue_id = check_topic(header.topic or ""), check_queue_id(header.queue_id)
    if header.index < 0 or header.count < 0:
        raise invalid(f"there are no {header.count} entries from {header.index} on")
    if queue_id not in broker.reads.queue_ids(topic):
        return request.answer(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
    ends = broker.reads.min_offset(topic, queue_id), broker.reads.max_offset(topic, queue_id)
    head = QueryConsumeQueueResponseBody(min_queue_index=ends[0], max_queue_index=ends[1])
    test = _describe_group(broker, header, topic, head) if header.consumer_group else None
    found = bytearray(head.encode())
    found[-1:] = b',"queueData":'
    parts = _parts(broker, topic, queue_id, range(header.index, min(header.index + header.count, ends[1])), test)
    yield from append_parts(found, b"[]", parts)
    found += b"}"
    outside = None if ends[0] <= header.index < ends[1] else f"Index {header.index} of {queue_id}@{topic} is not exist!"
    return request.answer(remark=outside, body=bytes(found))


def _describe_group(
    broker: EntriesView, header: QueryConsumeQueueRequestHeader, topic: str, head: QueryConsumeQueueResponseBody
) -> _Test | None:
    """Describe the subscription and filter of a group. Returns its test of entries, None if it does not subscribe."""
    group = check_group(header.consumer_group or "")
    head.subscription_data = subscription = broker.consumers.subscription(group, topic)
    if subscription is None:
        head.filter_data = f"{group}@{topic} is not online!"
        return None
    data = broker.filters.get(topic, group)
    head.filter_data = "null" if data is None else write_json(data.to_json())
    return _test_of(subscription, data)


def _test_of(subscription: SubscriptionData, data: ConsumerFilterData | None) -> _Test:
    codes = None if subscription.sub_string == "*" else subscription.code_set
    by_bits = None if data is None else data.bit_test()

    def wants(entry: ExtEntry) -> bool:
        if subscription.is_tag:
            return codes is None or entry.tags_code in codes
        return by_bits is None or by_bits(entry.bit_map, entry.store_timestamp)

    return wants


def _parts(broker: EntriesView, topic: str, queue_id: int, offsets: range, test: _Test | None) -> Iterator[str]:
    """JSON of lists of entries, a list for each step."""
    while offsets:
        units = broker.reads.units(topic, queue_id, offsets.start, min(len(offsets), _UNITS_A_STEP))
        if not units:
            return
        yield write_json([_entry(*unit, test).to_json() for unit in units])
        offsets = offsets[len(units) :]


def _entry(position: int, size: int, tags_code: int, ext: ExtEntry | None, test: _Test | None) -> ConsumeQueueData:
    told = ConsumeQueueData(physic_offset=position, physic_size=size, tags_code=tags_code)
    if ext is not None:
        told.tags_code = ext.tags_code
        told.extend_data_json = write_json(
            {
                "bitMapSize": len(ext.bit_map),
                "filterBitMap": base64.b64encode(ext.bit_map).decode(),
                "msgStoreTime": ext.store_timestamp,
                "tagsCode": ext.tags_code,
            }
        )
        told.bit_map = _bits(ext.bit_map)
        told.eval = test is not None and test(ext)
    return told


def _bits(bit_map: bytes) -> str:
    """The bits from the last to the first, eight bytes a line except for the first byte, as Java's tools show them."""
    last = len(bit_map) - 1
    return "".join(f"{bit_map[index]:08b}" + ("" if index % 8 else "\n") for index in range(last, -1, -1))
