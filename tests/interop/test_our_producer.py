"""Our producer, on trio and blocking, on Apache's servers: its consumer gets everything as it was sent."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trio

import rocketpy
import rocketpy.sync
from rocketpy import (
    BrokerError,
    ConfigError,
    Message,
    MessageIllegalError,
    SendManyError,
    SendStatus,
    TopicNotFoundError,
)
from tests.interop import lines
from tests.interop.drivers import JavaPushConsumer, java_push_consumer
from tests.interop.failure import InteropError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rocketpy import SendResult
    from tests.interop.apache import Apache, Cluster
    from tests.interop.drivers import Event, JavaAdmin

pytestmark = pytest.mark.interop

TOPIC = "From-python"
QUEUES = 4
LONG_BODY = b"flight " * 2_000
TIMEOUT = 10.0


class Watched(NamedTuple):
    """Apache's consumer of the topic that all tests here send to."""

    namesrv: str
    consumer: JavaPushConsumer

    def of(self, keys: str, count: int = 1) -> list[Event]:
        """The deliveries with these keys, once there are so many, by place."""

        def found() -> list[Event] | None:
            messages = [each for each in self.consumer.messages if each["keys"] == keys]
            return messages if len(messages) >= count else None

        messages = self.consumer.process.wait_until(found, f"{count} messages with the keys {keys}", 30.0)
        assert len(messages) == count
        return sorted(messages, key=lambda each: (each["queueId"], each["queueOffset"]))


@pytest.fixture(scope="module")
def watched(apache: Apache, apache_cluster: Cluster) -> Iterator[Watched]:
    apache_cluster.create_topic(TOPIC, queues=QUEUES)
    with java_push_consumer(apache, apache_cluster.namesrv, "from-python", TOPIC) as consumer:
        yield Watched(apache_cluster.namesrv, consumer)


@pytest.fixture
async def producer(watched: Watched) -> rocketpy.Producer:
    async with rocketpy.Producer("from-trio", namesrv=watched.namesrv, send_timeout=TIMEOUT) as opened:
        yield opened


@pytest.fixture
def blocking(watched: Watched) -> Iterator[rocketpy.sync.Producer]:
    with rocketpy.sync.Producer("from-blocking", namesrv=watched.namesrv, send_timeout=TIMEOUT) as opened:
        yield opened


async def in_thread(function: Callable[[], list[Event]]) -> list[Event]:
    return await trio.to_thread.run_sync(function)


def body(message: Event) -> bytes:
    return base64.b64decode(message["body"])


def check_result(apache: Apache, result: SendResult, transaction_id: str | None) -> None:
    """What a result says besides the place, as its broker has answered it; no ids of transactions before 5.x."""
    known = transaction_id if "transactionId" not in lines.of(apache.version).lacking_fields else None
    assert result.transaction_id == known
    assert (result.region_id, result.trace_on, result.recall_handle) == ("DefaultRegion", True, None)
    assert len(result.offset_message_id.split(",")) == len(result.message_id.split(","))


def check_place(message: Event, result: SendResult) -> None:
    assert result.status is SendStatus.SEND_OK
    assert message["msgId"] == result.message_id
    place = message["topic"], message["brokerName"], message["queueId"], message["queueOffset"]
    assert place == (*result.queue, result.queue_offset)


# --- one message ---------------------------------------------------------------------------------------


async def test_everything_about_a_message_arrives(
    apache: Apache, watched: Watched, producer: rocketpy.Producer
) -> None:
    properties = {"Größe": "3 µm", "emoji": "🚀", "空": "港", "number": "7"}
    message = Message(TOPIC, "Flüge\0🛫".encode(), tags="Verspätung", keys=["all-1", "ключ"], properties=properties)
    message.flag = -7
    result = await producer.send(message)
    (got,) = await in_thread(partial(watched.of, "all-1 ключ"))
    check_place(got, result)
    check_result(apache, result, result.message_id)
    assert body(got).decode() == "Flüge\0🛫"
    assert (got["tags"], got["flag"], got["sysFlag"]) == ("Verspätung", -7, 0)
    expected = {**properties, "UNIQ_KEY": result.message_id, "WAIT": "true"}
    assert got["properties"].items() >= lines.known(expected, lines.of(apache.version)).items()
    assert 0 <= got["storeTimestamp"] - got["bornTimestamp"] < TIMEOUT * 1000
    await producer.send(Message(TOPIC, value=["Flüge", 7], keys="value"))
    (got,) = await in_thread(partial(watched.of, "value"))
    assert (body(got), got["properties"]["contentType"]) == (b"\x92\xa6Fl\xc3\xbcge\x07", "application/msgpack")


def test_a_large_body_is_unpacked_by_apaches_consumer(
    apache: Apache, watched: Watched, blocking: rocketpy.sync.Producer
) -> None:
    result = blocking.send(Message(TOPIC, LONG_BODY, keys="large"))
    (got,) = watched.of("large")
    check_place(got, result)
    assert body(got) == LONG_BODY
    assert got["sysFlag"] == lines.of(apache.version).unpacked_flag


async def test_a_oneway_message_arrives(watched: Watched, producer: rocketpy.Producer) -> None:
    await producer.send_oneway(Message(TOPIC, b"gone", keys="oneway"))
    (got,) = await in_thread(partial(watched.of, "oneway"))
    assert body(got) == b"gone"


def test_a_delayed_message_arrives_later(watched: Watched, blocking: rocketpy.sync.Producer) -> None:
    result = blocking.send(Message(TOPIC, b"later", keys="delayed", delay_level=1))
    assert result.status is SendStatus.SEND_OK
    (got,) = watched.of("delayed")
    assert (got["msgId"], body(got), got["queueId"]) == (result.message_id, b"later", result.queue.queue_id)
    # A second by the broker's table; the stored copy is the one that was put back.
    assert got["storeTimestamp"] - got["bornTimestamp"] >= 900
    assert got["properties"]["DELAY"] == "1"


# --- several -------------------------------------------------------------------------------------------


async def test_a_batch_arrives_as_its_messages(apache: Apache, watched: Watched, producer: rocketpy.Producer) -> None:
    batch = [Message(TOPIC, b"item-%d" % n, keys="batch", tags=f"t{n}", properties={"n": str(n)}) for n in range(5)]
    result = await producer.send_batch(batch)
    got = await in_thread(partial(watched.of, "batch", 5))
    check_place({**got[0], "msgId": result.message_id}, result)
    check_result(apache, result, None)
    assert [each["msgId"] for each in got] == result.message_id.split(",")
    assert [(body(each), each["tags"], each["properties"]["n"]) for each in got] == [
        (b"item-%d" % n, f"t{n}", str(n)) for n in range(5)
    ]
    assert [each["queueOffset"] for each in got] == [result.queue_offset + n for n in range(5)]


def test_one_sharding_key_keeps_to_one_queue_in_order(watched: Watched, blocking: rocketpy.sync.Producer) -> None:
    keys = ["JFK", "LGA", "EWR", "Zürich"]
    sent = {
        key: [blocking.send(Message(TOPIC, b"%d" % n, keys=f"shard-{key}", sharding_key=key)) for n in range(3)]
        for key in keys
    }
    for key in keys:
        got = watched.of(f"shard-{key}", 3)
        assert {each["queueId"] for each in got} == {result.queue.queue_id for result in sent[key]}
        assert [body(each) for each in got] == [b"0", b"1", b"2"]
        assert {each["properties"]["__SHARDINGKEY"] for each in got} == {key}
    assert len({results[0].queue for results in sent.values()}) > 1


def test_two_hundred_soon_arrive_once_and_over_all_queues(watched: Watched, blocking: rocketpy.sync.Producer) -> None:
    futures = [blocking.send_soon(Message(TOPIC, b"soon-%d" % n, keys="soon")) for n in range(200)]
    results = {future.result(TIMEOUT).message_id: future.result() for future in futures}
    got = watched.of("soon", 200)
    assert {each["msgId"] for each in got} == set(results)
    assert {body(each) for each in got} == {b"soon-%d" % n for n in range(200)}
    assert {each["queueId"] for each in got} == set(range(QUEUES))
    for each in got:
        check_place(each, results[each["msgId"]])


# --- beyond sending ------------------------------------------------------------------------------------


def test_both_ids_of_a_message_are_found_by_apaches_admin(
    watched: Watched, blocking: rocketpy.sync.Producer, apache_admin: JavaAdmin
) -> None:
    result = blocking.send(Message(TOPIC, b"find me", keys=["id-1", "id-2"]))
    watched.of("id-1 id-2")
    by_offset = apache_admin.run("view", topic=TOPIC, id=result.offset_message_id)
    by_unique = apache_admin.run("query_unique", topic=TOPIC, id=result.message_id)
    assert by_offset == by_unique
    assert by_offset["msgId"] == result.message_id
    assert by_offset["queueOffset"] == result.queue_offset
    assert [each["msgId"] for each in apache_admin.run("query_key", topic=TOPIC, key="id-2")] == [result.message_id]


async def test_a_topic_that_is_made_here_is_there_for_apaches_admin(
    producer: rocketpy.Producer, apache_admin: JavaAdmin, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("Made-by-python")
    await producer.create_topic(topic, queues=3)
    result = await producer.send(Message(topic, b"first"))
    assert result.queue.topic == topic
    route = await trio.to_thread.run_sync(partial(apache_admin.run, "route", topic=topic))
    assert [data["writeQueueNums"] for data in route["queueDatas"]] == [3]


async def test_a_topic_is_made_on_brokers_where_messages_make_none(apache: Apache) -> None:
    with apache.cluster(overrides={"autoCreateTopicEnable": "false"}) as strict:
        async with rocketpy.Producer("from-strict", namesrv=strict.namesrv, send_timeout=TIMEOUT) as producer:
            with pytest.raises(TopicNotFoundError, match="does not exist: create it"):
                await producer.send(Message("Strict", b"x"))
            await producer.create_topic("Strict", queues=3)
            assert len(await producer.queues("Strict")) == 3
            await producer.send(Message("Strict", b"x"))


async def test_apaches_refusals_come_as_errors(producer: rocketpy.Producer, apache_cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match="bad name"):
        await producer.send(Message("bad name", b"x"))
    with pytest.raises(BrokerError):
        await producer.send(Message(TOPIC, b"x"), queue=rocketpy.MessageQueue(TOPIC, "broker-a", 99))
    async with rocketpy.Producer(
        "from-strict", namesrv=apache_cluster.namesrv, create_topic_key="No-such-topic"
    ) as strict:
        with pytest.raises(TopicNotFoundError):
            await strict.send(Message("Never-made", b"x"))


def test_the_harness_reports_an_unknown_id(apache_admin: JavaAdmin) -> None:
    with pytest.raises(InteropError):
        apache_admin.run("view", topic=TOPIC, id="no-id")


def test_many_arrive_once_and_those_of_a_sharding_key_in_order(
    watched: Watched, blocking: rocketpy.sync.Producer
) -> None:
    shards = [None, "JFK", None, "LGA", "Zürich"]
    messages = [Message(TOPIC, b"%d" % n, keys="many", sharding_key=shards[n % 5]) for n in range(600)]
    result = blocking.send_many(messages, batch_size=50)
    assert (result.messages, result.failed) == (600, 0)
    assert result.frames < 40
    got = watched.of("many", 600)
    assert sorted(int(body(each)) for each in got) == list(range(600))
    for shard in set(shards) - {None}:
        mine = [each for each in got if each["properties"].get("__SHARDINGKEY") == shard]
        assert len({each["queueId"] for each in mine}) == 1
        assert [int(body(each)) for each in mine] == sorted(int(body(each)) for each in mine)


def test_of_many_the_one_that_the_broker_refuses_is_named(watched: Watched) -> None:
    limits = {"max_message_size": 8 << 20, "compress_body_over": 16 << 20}
    messages = [Message(TOPIC, b"%d" % n, keys="refused") for n in range(20)]
    messages[7] = Message(TOPIC, bytes(5 << 20), keys=["refused", "too"])
    failures: list[SendManyError] = []
    with rocketpy.sync.Producer("too-large", namesrv=watched.namesrv, **limits) as producer:
        result = producer.send_many(messages, on_failure=failures.append)
    assert [(each.first, each.last, each.keys) for each in failures] == [(7, 7, ("refused", "too"))]
    assert isinstance(failures[0].__cause__, MessageIllegalError)
    assert (result.messages, result.failed) == (19, 1)
    assert len(watched.of("refused", 19)) == 19
