"""Sends: what is stored, what is answered, and what is refused, in which words."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import BrokerError
from rocketpy.message import Message
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.batch import BatchItem, encode_batch, encode_batch_items
from rocketpy.wire.codes import RequestCode, ResponseCode, SerializeType
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.fast_answer import scan_send_answer
from rocketpy.wire.headers.send import SendMessageRequestHeader, SendMessageResponseHeader
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.serialize import encode_command
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.broker.putting.batch_items import SYSTEM_PROPERTIES
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import bodies, broker_and_client, client_of, send_fields, settings


async def stored(client, topic: str = "T", queue: int = 0):
    answer = await client.pull(topic, queue)
    return decode_messages(answer.body)


async def test_K1_a_send_is_stored_and_says_where(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        answer = await client.send(properties="UNIQ_KEY\x01ID\x02TAGS\x01a\x02", queue_id=2)
        assert answer.code == ResponseCode.SUCCESS
        header = SendMessageResponseHeader.from_ext(answer.ext_fields)
        assert (header.queue_id, header.queue_offset, header.transaction_id) == (2, 0, "ID")
        assert (header.region_id, header.trace_on) == ("DefaultRegion", True)
        (message,) = await stored(client, queue=2)
        assert header.msg_id == message.offset_message_id
        assert message.wire_properties == {
            "UNIQ_KEY": "ID", "TAGS": "a", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
            "CLUSTER": "DefaultCluster",
        }  # fmt: skip
        assert message.store_host == broker.address
        assert broker.topics.get("T").write_queue_nums == 4


async def test_a_message_without_a_unique_key_gets_one(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        answer = await client.send(properties="a\x01b")
        (message,) = await stored(client)
        assert message.wire_properties["UNIQ_KEY"] == answer.ext_fields["transactionId"]
        assert message.properties["a"] == "b"


async def test_the_long_header_says_the_same_as_the_short_one(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        header = SendMessageRequestHeader.from_short_ext(send_fields("T", "k\x01v\x02"))
        answer = await client.ask(RequestCode.SEND_MESSAGE, header.to_ext(), b"long")
        assert answer.code == 0
        assert [each.body for each in await stored(client)] == [b"long"]


@pytest.mark.parametrize("kind", list(SerializeType))
async def test_P3_answers_come_in_the_encoding_of_the_request(autojump_clock: MockClock, kind: SerializeType) -> None:
    async with broker_and_client() as (_, client):
        answer = await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x", serialize_type=kind)
        assert (answer.code, answer.serialize_type) == (0, kind)


@pytest.mark.parametrize("kind", list(SerializeType))
async def test_answers_have_the_shape_that_clients_read_in_one_pass(
    autojump_clock: MockClock, kind: SerializeType
) -> None:
    async with broker_and_client() as (_, client):
        opaque = client.connection.next_opaque()
        fields = send_fields("T", "UNIQ_KEY\x01ID\x02", queue_id=3)
        command = RemotingCommand(RequestCode.SEND_MESSAGE_V2, fields, b"x", opaque, serialize_type=kind)
        frame = await client.connection.exchange(opaque, encode_command(command), trio.current_time() + 3)
        found = scan_send_answer(frame)
        assert found is not None
        assert found[1:] == (3, 0, "ID", "DefaultRegion", True)


async def test_P4_answers_carry_the_opaque_of_their_request_and_oneway_gets_none(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        client.connection.send_oneway(RemotingCommand.oneway(310, send_fields("T"), b"one way"))
        command = RemotingCommand(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"asked")
        answer = await client.connection.request(command, timeout=3)
        assert answer.is_response
        assert answer.opaque == command.opaque
        assert client.connection.statistics().unknown_answers == 0
        assert bodies(await client.pull()) == [b"one way", b"asked"]


async def test_a_batch_is_stored_message_by_message(autojump_clock: MockClock) -> None:
    messages = [Message("T", str(n).encode(), properties={"n": str(n)}) for n in range(3)]
    async with broker_and_client() as (_, client):
        fields = send_fields("T", "UNIQ_KEY\x01B\x02", queue_id=1, batch=True)
        answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, fields, encode_batch(messages))
        assert answer.code == 0
        found = await stored(client, queue=1)
        assert [(each.body, each.properties["n"], each.queue_offset) for each in found] == [
            (b"0", "0", 0), (b"1", "1", 1), (b"2", "2", 2),
        ]  # fmt: skip
        assert all(each.wire_properties["CLUSTER"] == "DefaultCluster" for each in found)
        assert answer.ext_fields["msgId"] == ",".join(each.offset_message_id for each in found)
        assert (answer.ext_fields["queueOffset"], answer.ext_fields["transactionId"]) == ("0", "B")


async def test_a_batch_of_the_cpp_client_is_stored_message_by_message(autojump_clock: MockClock) -> None:
    """It sends batches as SEND_MESSAGE, and writes 1 and 0 where Java writes true and false."""
    async with broker_and_client() as (_, client):
        fields = SendMessageRequestHeader.from_short_ext(send_fields("T", "WAIT\x01true\x02")).to_ext()
        for batch, body in ("1", encode_batch([Message("T", b"a"), Message("T", b"b")])), ("0", b"c"):
            told = {**fields, "batch": batch, "unitMode": "0"}
            assert (await client.ask(RequestCode.SEND_MESSAGE, told, body)).code == 0
        assert [each.body for each in await stored(client)] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("body", [b"", b"x", encode_batch([Message("T", b"x")])[:-1]])
async def test_what_is_no_batch_is_refused_whole(autojump_clock: MockClock, body: bytes) -> None:
    async with broker_and_client() as (_, client):
        answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields("T", batch=True), body)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert (await client.pull()).code == ResponseCode.PULL_NOT_FOUND


@pytest.mark.parametrize("properties", ["n\x01" + "x" * 32_768 + "\x02", "n\x01" + "中" * 11_000 + "\x02"])
async def test_S9_properties_that_do_not_fit_are_refused(autojump_clock: MockClock, properties: str) -> None:
    async with broker_and_client() as (_, client):
        answer = await client.send(properties=properties)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert "properties" in answer.remark
        assert (await client.send(properties="名\x01值\x02")).code == 0
        assert (await stored(client))[0].properties["名"] == "值"


async def test_bodies_have_a_size(autojump_clock: MockClock) -> None:
    async with broker_and_client(max_message_size=100) as (_, client):
        assert (await client.send(body=b"")).code == ResponseCode.MESSAGE_ILLEGAL
        assert (await client.send(body=b"x" * 101)).code == ResponseCode.MESSAGE_ILLEGAL
        assert (await client.send(body=b"x" * 100)).code == 0


# --- where a message may go ----------------------------------------------------------------------------


@pytest.mark.parametrize("queue", [4, 5, 2**31 - 1])
async def test_S8_a_queue_beyond_the_last_is_refused(autojump_clock: MockClock, queue: int) -> None:
    async with broker_and_client() as (_, client):
        answer = await client.send(queue_id=queue)
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert "queue" in answer.remark


async def test_threat_M9_a_negative_queue_means_any_and_one_beyond_the_last_is_refused(
    autojump_clock: MockClock,
) -> None:
    async with broker_and_client() as (_, client):
        for queue in (-1, -(2**31)):
            answer = await client.send(queue_id=queue)
            assert answer.code == 0
            assert 0 <= int(answer.ext_fields["queueId"]) < 4
        assert (await client.send(queue_id=4)).code == ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize(
    "topic",
    ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "%DLQ%g", "SELF_TEST_TOPIC"],
)
async def test_threat_M10_topics_of_the_system_are_not_for_clients(autojump_clock: MockClock, topic: str) -> None:
    async with broker_and_client() as (broker, client):
        answer = await client.send(topic)
        assert answer.code == ResponseCode.NO_PERMISSION
        assert broker.store.reads.topics() == set()


@pytest.mark.parametrize("topic", ["", "../x", "a b", "a/b", "x" * 128, "тема", "a\x00b"])
async def test_threat_A1_a_name_that_no_topic_has_is_refused_before_anything_is_made(
    autojump_clock: MockClock, topic: str
) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        before = set(broker.topics.all())
        answer = await client.send(topic)
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert set(broker.topics.all()) == before
        assert storage.list("consumequeue") == []


async def test_a_topic_is_made_after_the_default_topic_or_not_at_all(autojump_clock: MockClock) -> None:
    async with broker_and_client(auto_create_topic_enable=False) as (_, client):
        answer = await client.send()
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    async with broker_and_client() as (broker, client):
        assert (await client.send(default_topic="nothing")).code == ResponseCode.TOPIC_NOT_EXIST
        assert (await client.send(default_topic_queue_nums=100)).code == 0
        assert broker.topics.get("T").write_queue_nums == 8


async def test_a_retry_topic_needs_its_group_and_gives_up_into_the_dead_letters(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        fields = {"default_topic": "none", "reconsume_times": 16}
        assert (await client.send("%RETRY%g", b"again", **fields)).code == 0
        assert bodies(await client.pull("%RETRY%g")) == [b"again"]
        assert (await client.send("%RETRY%g", b"dead", **{**fields, "reconsume_times": 17})).code == 0
        (message,) = await stored(client, "%DLQ%g")
        assert (message.body, message.wire_properties["DELAY"], message.reconsume_times) == (b"dead", "-1", 17)
        assert (await client.send("%RETRY%g", b"dead too", reconsume_times=3, max_reconsume_times=2)).code == 0
        assert bodies(await client.pull("%DLQ%g")) == [b"dead", b"dead too"]
        assert broker.topics.get("%DLQ%g").write_queue_nums == 1
    async with broker_and_client(auto_create_subscription_group=False) as (_, client):
        assert (await client.send("%RETRY%g")).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


# --- what a message may say ----------------------------------------------------------------------------


async def test_a_delayed_message_is_put_aside(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        answer = await client.send(properties="DELAY\x0119\x02", queue_id=3)
        assert (answer.code, answer.ext_fields["queueId"]) == (0, "3")
        assert broker.store.reads.max_offset("SCHEDULE_TOPIC_XXXX", 17) == 1
        assert broker.store.reads.max_offset("T", 3) == 0
        assert (await client.send(properties="DELAY\x010\x02", queue_id=3)).code == 0
        assert broker.store.reads.max_offset("T", 3) == 1
        assert (await client.send(properties="DELAY\x01soon\x02")).code == ResponseCode.MESSAGE_ILLEGAL


async def test_threat_M6_properties_of_the_system_are_dropped(autojump_clock: MockClock) -> None:
    forged = "".join(f"{name}\x01forged\x02" for name in sorted(SYSTEM_PROPERTIES)) + "CLUSTER\x01other\x02k\x01v\x02"
    async with broker_and_client() as (_, client):
        assert (await client.send(properties=forged, sys_flag=0xFFFF)).code == 0
        item = Message("T", b"item")
        item.wire_properties.update(dict.fromkeys(SYSTEM_PROPERTIES, "forged"), k="v")
        answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields("T", batch=True), encode_batch([item]))
        assert answer.code == 0
        found = await stored(client)
        assert len(found) == 2
        for message in found:
            assert not SYSTEM_PROPERTIES & message.wire_properties.keys()
            assert (message.wire_properties["CLUSTER"], message.properties["k"]) == ("DefaultCluster", "v")
        # The bits of transactions, of IPv6 hosts and of inner batches are not the client's.
        assert found[0].sys_flag & 0xFC == 0


async def test_threat_M6_a_batch_without_properties_of_the_system_is_stored_as_sent(autojump_clock: MockClock) -> None:
    items = [
        BatchItem(0, b"REAL_TOPIC\x01in a body\x02", text) for text in (b"odd\x02a\x01b\x02", b"odd\x02c\x01d", b"")
    ]
    async with broker_and_client() as (_, client):
        fields = send_fields("T", batch=True)
        assert (await client.ask(RequestCode.SEND_BATCH_MESSAGE, fields, encode_batch_items(items))).code == 0
        records = (await client.pull("T", 0)).body
        for start in (b"odd\x02a\x01b\x02", b"odd\x02c\x01d\x02", b""):
            assert start + b"MSG_REGION\x01DefaultRegion\x02" in records


@pytest.mark.parametrize(
    "properties", ["no separators", "\x01\x02\x01", "a\x01\x02b\x01", "\x02" * 50, "a\x01b\x01c\x02"]
)
async def test_threat_M6_odd_property_texts_are_taken(autojump_clock: MockClock, properties: str) -> None:
    async with broker_and_client() as (_, client):
        assert (await client.send(properties=properties)).code == 0
        assert (await stored(client))[0].wire_properties["CLUSTER"] == "DefaultCluster"


async def test_threat_M7_separators_within_a_value_separate(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        assert (await client.send(properties="a\x01b\x02REAL_TOPIC\x01SCHEDULE_TOPIC_XXXX\x02")).code == 0
        properties = (await stored(client))[0].wire_properties
        assert properties["a"] == "b"
        assert "REAL_TOPIC" not in properties


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ("TIMER_DELAY_SEC\x01x\x02", ResponseCode.MESSAGE_ILLEGAL),
        ("TIMER_DELAY_SEC\x01999999\x02", ResponseCode.MESSAGE_ILLEGAL),
        ("INNER_NUM\x015\x02", ResponseCode.MESSAGE_ILLEGAL),
    ],
)
async def test_what_the_broker_cannot_keep_is_not_taken(
    autojump_clock: MockClock, properties: str, code: ResponseCode
) -> None:
    async with broker_and_client() as (broker, client):
        assert (await client.send(properties=properties)).code == code
        assert broker.store.reads.topics() == set()


# --- fields --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [("b", None), ("e", None), ("e", "x"), ("e", str(2**31)), ("g", str(2**63)), ("f", ""), ("h", "1.5")],
)
async def test_threat_F13_a_field_that_is_missing_or_no_number_is_an_answer_not_an_end(
    autojump_clock: MockClock, field: str, value: str | None
) -> None:
    async with broker_and_client() as (_, client):
        fields = send_fields("T")
        fields.pop(field)
        if value is not None:
            fields[field] = value
        answer = await client.ask(RequestCode.SEND_MESSAGE_V2, fields, b"x")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (await client.send()).code == 0


async def test_sends_of_one_chunk_are_written_together(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    writes = []
    async with broker_and_client(storage=storage) as (broker, client):
        await client.send()
        storage.fault = lambda operation, path, size: writes.append(path) if operation == "pwrite" else None
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(client.send)
        assert broker.store.reads.max_offset("T", 0) == 51
        assert len([path for path in writes if path.startswith("commitlog")]) < 10


class Guard:
    """A hook that refuses what has a certain tag, and takes notes of the answers."""

    def __init__(self) -> None:
        self.answered: list[int] = []

    def before_request(self, address: str, command: RemotingCommand) -> None:
        if "TAGS\x01unwanted" in command.ext_fields.get("i", ""):
            raise BrokerError.for_code(ResponseCode.NO_PERMISSION, "not this tag")

    def after_answer(self, address: str, command: RemotingCommand, answer: RemotingCommand | None) -> None:
        if command.code == RequestCode.SEND_MESSAGE_V2 and answer is not None:
            self.answered.append(answer.code)


async def test_K5_a_hook_may_refuse_a_send_and_hears_of_the_others(autojump_clock: MockClock) -> None:
    guard, network = Guard(), MemoryNetwork()
    opened = open_broker(settings(), network=network, storage=MemoryStorage(), hooks=[guard])
    async with opened as broker, client_of(network, broker.address) as client:
        assert (await client.send(body=b"1")).code == 0
        refused = await client.send(body=b"2", properties="TAGS\x01unwanted\x02")
        assert (refused.code, refused.remark) == (ResponseCode.NO_PERMISSION, "not this tag")
        assert (await client.send(body=b"3", properties="TAGS\x01wanted\x02")).code == 0
        assert [each.body for each in await stored(client)] == [b"1", b"3"]
    assert guard.answered == [0, 0]
