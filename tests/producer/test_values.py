"""Messages with values: what travels, what is refused, and batches that are split by size."""

from __future__ import annotations

import pickle
import zlib

import pytest
import trio

from rocketpy.config import ProducerConfig, PullConsumerConfig, PushConsumerConfig
from rocketpy.errors import ConfigError, SendManyError, SerializationError
from rocketpy.message import Message
from rocketpy.serialization import serializer
from rocketpy.wire.batch import decode_batch
from rocketpy.wire.message_codec import decode_record
from rocketpy.wire.properties import decode_properties
from rocketpy.wire.record import encode_record
from rocketpy.wire.sysflag import COMPRESSED
from tests.producer.brokers import SendBroker
from tests.serialization.shouting import Shouting

ORDER = {"number": 42, "lines": [["cup", 2]]}
MSGPACK = {"contentType": "application/msgpack"}


def valued(value=ORDER, **fields):
    return Message("T", value=value, **fields)


@pytest.mark.parametrize(
    ("chosen", "value", "content_type", "body"),
    [
        ({}, ORDER, "application/msgpack", serializer("msgpack").encode(ORDER)),
        ({}, None, "application/msgpack", b"\xc0"),
        ({}, b"bytes", "application/msgpack", b"\xc4\x05bytes"),
        ({"serializer": "json"}, ORDER, "application/json", b'{"number":42,"lines":[["cup",2]]}'),
        ({"serializer": "string"}, "text", "text/plain;charset=utf-8", b"text"),
        ({"serializer": Shouting()}, "text", "text/loud", b"TEXT"),
    ],
)
async def test_a_value_travels_as_the_serializer_writes_it(autojump_clock, opened, chosen, value, content_type, body):
    broker = SendBroker()
    sent = valued(value, tags="a")
    async with opened(broker, **chosen) as (producer, _):
        await producer.send(sent)
        await producer.send_oneway(sent)
        await producer.send(Message("T", b"as it is"))
    for taken in broker.taken[:2]:
        assert (taken.body, taken.properties["contentType"], taken.properties["TAGS"]) == (body, content_type, "a")
    assert broker.taken[2].body == b"as it is"
    assert "contentType" not in broker.taken[2].properties
    assert (sent.body, sent.value, sent.wire_properties) == (b"", value, {"WAIT": "true", "TAGS": "a"})


async def test_a_value_is_written_as_it_is_when_it_is_sent(autojump_clock, opened):
    broker, value = SendBroker(), {"n": 1}
    async with opened(broker, serializer="json") as (producer, _):
        sent = valued(value, properties={"contentType": "what somebody else has written"})
        await producer.send(sent)
        value["n"] = 2
        await producer.send(sent)
    assert [taken.body for taken in broker.taken] == [b'{"n":1}', b'{"n":2}']
    assert [taken.properties["contentType"] for taken in broker.taken] == ["application/json"] * 2


async def test_S10_a_large_value_is_compressed_once_and_never_in_a_batch(autojump_clock, opened):
    broker, value = SendBroker(), "all work and no play " * 400
    written = serializer("msgpack").encode(value)
    async with opened(broker) as (producer, _):
        await producer.send(valued(value))
        await producer.send(Message("T", zlib.compress(written), properties=MSGPACK))
        await producer.send_batch([valued(value), valued(value)])
    single, packed_before, batch = broker.taken
    assert (single.header.sys_flag, zlib.decompress(single.body)) == (0x301, written)
    assert packed_before.header.sys_flag == 0
    assert (batch.header.sys_flag, [item.body for item in decode_batch(batch.body)]) == (0, [written] * 2)


async def test_what_cannot_be_written_is_refused_before_anything_is_sent(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker, max_message_size=100, linger=0.01) as (producer, _):
        for wrong, error, said in (
            (valued({"a": object()}), SerializationError, "the value at 'a' has the type object"),
            (valued("x" * 101), ConfigError, "the body has 103 bytes, the limit is 100"),
        ):
            for call in (producer.send, producer.send_oneway, producer.request):
                with pytest.raises(error, match=said):
                    await call(wrong)
            for call in (producer.send_batch, producer.batches):
                with pytest.raises(error, match=said):
                    await call([valued("x"), wrong])
    assert broker.taken == []


async def test_S17_values_linger_as_bodies_do(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker, linger=0.01) as (producer, _):
        await producer.send(valued(0))
        async with trio.open_nursery() as nursery:
            for number in range(1, 4):
                nursery.start_soon(producer.send, valued(number))
    items = decode_batch(broker.taken[1].body)
    assert sorted(item.body for item in items) == [b"\x01", b"\x02", b"\x03"]
    assert {decode_properties(item.properties.decode())["contentType"] for item in items} == {"application/msgpack"}


async def test_B1_values_of_send_many_count_by_what_they_take_and_fail_alone(autojump_clock, opened):
    broker, failures = SendBroker(), []
    wrong = {10: valued({"a": object()})}
    messages = [wrong.get(number, valued(bytes(40_000))) for number in range(60)]
    async with opened(broker) as (producer, _):
        result = await producer.send_many(iter(messages), on_failure=failures.append)
    assert (result.messages, result.failed) == (59, 1)
    [failure] = failures
    assert isinstance(failure, SendManyError)
    assert (failure.first, failure.last) == (10, 10)
    assert isinstance(failure.__cause__, SerializationError)
    assert max(len(taken.body) for taken in broker.taken) < 1_200_000


async def test_S10_what_was_received_packed_is_sent_on_packed_once(autojump_clock, opened):
    broker, body = SendBroker(), b"flight " * 1000
    place = {"queue_id": 0, "flag": 0, "queue_offset": 0, "physical_offset": 0, "born_timestamp": 0}
    times = {"born_host": bytes(8), "store_timestamp": 0, "store_host": bytes(8)}
    packed = {"topic": b"T", "body": zlib.compress(body), "properties": b"", "sys_flag": COMPRESSED}
    received = decode_record(encode_record(**packed, **place, **times))
    async with opened(broker) as (producer, _):
        await producer.send(Message("T", received.body))
        with pytest.raises(ConfigError, match="to forward it, make a new Message from its topic, tags, keys and body"):
            await producer.send(received)
    [taken] = broker.taken
    assert (taken.header.sys_flag, zlib.decompress(taken.body)) == (0x301, body)


# --- splitting ----------------------------------------------------------------------------------------


async def test_B2_batches_are_each_as_full_as_may_be_and_each_has_its_result(autojump_clock, opened):
    broker = SendBroker()
    messages = [
        valued(number, keys=[f"k{number}"], properties={"größe": "ü" * (1 + number % 7)}) for number in range(100)
    ]
    async with opened(broker, max_message_size=1000) as (producer, _):
        with pytest.raises(ConfigError, match="split them with batches"):
            await producer.send_batch(messages)
        parts = producer.batches(iter(messages))
        results = [await producer.send_batch(part) for part in parts]
        assert [len(taken.body) for taken in broker.taken if not 700 < len(taken.body) <= 1000] == [
            len(broker.taken[-1].body)
        ]
        small = producer.batches(messages[:4], max_size=1)
    assert [each.value for part in parts for each in part] == list(range(100))
    assert [item.body for taken in broker.taken for item in decode_batch(taken.body)] == [
        serializer("msgpack").encode(number) for number in range(100)
    ]
    assert [len(result.message_id.split(",")) for result in results] == [len(part) for part in parts]
    assert list(map(len, small)) == [1] * 4
    assert producer.batches([]) == []


async def test_B2_a_message_that_only_fits_without_a_frame_goes_without(autojump_clock, opened):
    broker, body = SendBroker(), bytes(range(100))
    async with opened(broker, max_message_size=100) as (producer, _):
        parts = producer.batches([Message("T", b"a"), Message("T", body), Message("T", b"b")])
        assert [[len(each.body) for each in part] for part in parts] == [[1], [100], [1]]
        result = await producer.send_batch(parts[1])
        with pytest.raises(ConfigError, match="the body has 101 bytes"):
            producer.batches([Message("T", b"a"), Message("T", body + b"x")])
    [taken] = broker.taken
    assert (taken.body, taken.header.batch, taken.properties["UNIQ_KEY"]) == (body, False, result.message_id)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((5,), "an iterable of messages"),
        (([Message("T", b"x"), Message("U", b"x")],), "one topic"),
        (([Message("T", b"x"), None],), "expected a Message"),
    ],
)
async def test_B1_batches_refuses_what_send_batch_would(autojump_clock, opened, given, said):
    async with opened(enter=False) as (producer, _):
        with pytest.raises(ConfigError, match=said):
            producer.batches(*given)
        for size in (0, -1, True, 1.5, 2**30):
            with pytest.raises(ConfigError, match="max_size must be a whole number of bytes"):
                producer.batches([Message("T", b"x")], max_size=size)


# --- settings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("yaml", "there is no value format 'yaml'"),
        (5, "int is neither"),
        (Shouting, "class Shouting"),
        (Shouting(None), "'shouting' needs a content_type"),
    ],
)
def test_an_unusable_serializer_is_refused_when_the_settings_are_made(wrong, said):
    with pytest.raises(ConfigError, match=said):
        ProducerConfig(group="g", serializer=wrong)
    for kind in (PushConsumerConfig, PullConsumerConfig):
        with pytest.raises(ConfigError, match=said):
            kind(group="g", serializers=[wrong])


def test_threat_L12_settings_with_serializers_are_taken_over_and_pickled():
    own = serializer("json")
    config = PushConsumerConfig.of(PullConsumerConfig(group="g", serializers=own), group="h")
    assert config.serializers == (own,) == pickle.loads(pickle.dumps(config)).serializers
    assert pickle.loads(pickle.dumps(ProducerConfig(group="g", serializer=own))).serializer == own
