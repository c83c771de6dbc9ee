"""Declarations that no captured frame meets, or only one by hand: Apache's broker understands what they write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

import rocketpy
from rocketpy import Message
from rocketpy.wire.bodies.topics import LogicQueueMappingItem, TopicQueueMappingDetail
from rocketpy.wire.catalogue.bodies.pop import BatchAck, BatchAckMessageRequestBody, bits_of
from rocketpy.wire.catalogue.exchanges import body_codec, header_class
from rocketpy.wire.catalogue.pop_info import decode_message_offsets, decode_start_offsets
from rocketpy.wire.catalogue.receipt_handle import ReceiptHandle, TopicKind
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.message_codec import decode_messages
from tests.interop import probe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.catalogue.headers.pop import PopMessageResponseHeader
    from tests.interop.apache import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.one_line("5.3.3", "static topics, pop and recalls came with 5.x")]

BROKER = "broker-a"


@pytest.fixture
async def producer(apache_cluster: Cluster) -> AsyncIterator[rocketpy.Producer]:
    async with rocketpy.Producer("declared", namesrv=apache_cluster.namesrv, send_timeout=10) as opened:
        yield opened


async def ask(producer: rocketpy.Producer, code: RequestCode, body: bytes = b"", **fields: Any) -> tuple[Any, Any]:
    """Header and body of the answer, of the classes that belong to the code."""
    namesrv = producer.config.namesrv[0]
    address = await trio.to_thread.run_sync(lambda: probe.broker_addresses(namesrv)[BROKER]["0"])
    connection: Connection = await producer.client.pool.get(address, timeout=10)
    request, reply = header_class(code), header_class(code, answer=True)
    ext = request(**fields).to_ext() if request is not None else {}
    answer = await connection.request(RemotingCommand(code, ext, body), timeout=10)
    assert answer.code == 0, answer.remark
    codec = body_codec(code, answer=True)
    found = codec.decode(answer.body) if codec is not None and answer.body else answer.body
    return None if reply is None else reply.from_ext(answer.ext_fields), found


# --- static topics -------------------------------------------------------------------------------------


async def test_a_static_topic_is_made_and_shown(producer: rocketpy.Producer, fresh_name: Callable[[str], str]) -> None:
    topic = fresh_name("Static")
    item = LogicQueueMappingItem(bname=BROKER)
    detail = TopicQueueMappingDetail(topic=topic, total_queues=1, bname=BROKER, epoch=1, hosted_queues={0: [item]})
    settings = {"read_queue_nums": 1, "write_queue_nums": 1, "perm": 6, "topic_filter_type": "SINGLE_TAG"}
    code = RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC
    await ask(producer, code, detail.encode(), topic=topic, default_topic="TBW102", **settings)
    _, found = await ask(producer, RequestCode.GET_TOPIC_CONFIG, topic=topic, lo=True)
    assert found.mapping_detail.hosted_queues == {0: [item]}
    assert (found.topic_name, found.mapping_detail.total_queues, found.mapping_detail.bname) == (topic, 1, BROKER)
    _, everything = await ask(producer, RequestCode.GET_ALL_TOPIC_CONFIG, topic_seq=0)
    assert everything.topic_queue_mapping_detail_map[topic].hosted_queues == {0: [item]}


# --- pop -----------------------------------------------------------------------------------------------


async def pop(producer: rocketpy.Producer, topic: str) -> tuple[PopMessageResponseHeader, list[Any]]:
    header, records = await ask(
        producer,
        RequestCode.POP_MESSAGE,
        consumer_group="poppers",
        topic=topic,
        queue_id=-1,
        max_msg_nums=32,
        invisible_time=60_000,
        poll_time=0,
        born_time=0,
        init_mode=0,
        exp_type="TAG",
        exp="*",
    )
    return header, decode_messages(b"".join(record.encode() for record in records))


async def test_popped_messages_are_acknowledged_by_their_receipts(
    producer: rocketpy.Producer, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("Popped")
    await producer.create_topic(topic, queues=1)
    for number in range(3):
        await producer.send(Message(topic, b"%d" % number))
    header, messages = await pop(producer, topic)
    assert [message.body for message in messages] == [b"0", b"1", b"2"]
    place = (TopicKind.NORMAL, 0)
    assert decode_message_offsets(header.msg_offset_info or "") == {place: [0, 1, 2]}
    start = decode_start_offsets(header.start_offset_info or "")[place]

    receipt = ReceiptHandle(
        start_offset=start,
        retrieve_time=header.pop_time,
        invisible_time=header.invisible_time,
        revive_queue_id=header.revive_qid,
        topic_kind=TopicKind.NORMAL,
        broker_name=BROKER,
        queue_id=0,
        offset=0,
    )
    common = {"consumer_group": "poppers", "topic": topic, "queue_id": 0, "extra_info": receipt.encode()}
    await ask(producer, RequestCode.ACK_MESSAGE, offset=0, **common)
    code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
    changed, _ = await ask(producer, code, offset=1, invisible_time=30_000, **common)
    assert changed.invisible_time == 30_000

    ack = BatchAck(
        consumer_group="poppers",
        topic=topic,
        retry="0",
        start_offset=start,
        queue_id=0,
        revive_queue_id=header.revive_qid,
        pop_time=header.pop_time,
        invisible_time=header.invisible_time,
        bit_set=bits_of({2}),
    )
    body = BatchAckMessageRequestBody(broker_name=BROKER, acks=[ack])
    await ask(producer, RequestCode.BATCH_ACK_MESSAGE, body.encode())


# --- replication ---------------------------------------------------------------------------------------


async def test_what_a_slave_asks_its_master(producer: rocketpy.Producer) -> None:
    header, _ = await ask(producer, RequestCode.EXCHANGE_BROKER_HA_INFO)
    assert header.master_address
    assert header.master_ha_address
    assert header.master_flush_offset >= 0
    _, info = await ask(producer, RequestCode.GET_BROKER_HA_STATUS)
    assert info.master
    _, checkpoint = await ask(producer, RequestCode.GET_TIMER_CHECK_POINT)
    assert checkpoint.last_read_time_ms >= 0
    for code in (
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_DELAY_OFFSET,
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
        RequestCode.GET_TIMER_METRICS,
    ):
        _, body = await ask(producer, code)
        assert type(body).decode(body.encode()) == body
