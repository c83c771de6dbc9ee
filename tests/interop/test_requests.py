"""Requests and replies: ours with Apache's client at the other end, on Apache's broker and on ours."""

from __future__ import annotations

import base64
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import rocketpy.sync
from rocketpy import (
    BrokerError,
    ConsumeFromWhere,
    Message,
    MessageExt,
    ReplyTimeoutError,
    RocketMQError,
    SendError,
    create_reply_message,
)
from tests.interop import jvm
from tests.interop.async_surfaces import ASYNC_SURFACES, entered, loop_of
from tests.interop.drivers import java_push_consumer, running
from tests.interop.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.interop.apache import Apache, Cluster
    from tests.interop.drivers import Event

pytestmark = pytest.mark.interop

TIMEOUT = 10.0
SHORTLY = 2.0
"""Seconds after which nobody replies. The sending is within them too: if that takes longer, another error is raised."""


@pytest.fixture(params=["Apache's broker", "our broker"])
def cluster(request: pytest.FixtureRequest, apache: Apache) -> Cluster:
    """Either broker, beside the clients of each line."""
    name = "apache_cluster" if request.param == "Apache's broker" else "our_servers"
    found: Cluster = request.getfixturevalue(name)
    return found


@pytest.fixture
def topic(cluster: Cluster, fresh_name: Callable[[str], str]) -> str:
    name = fresh_name("Ask")
    cluster.create_topic(name, queues=4)
    return name


@contextmanager
def our_replier(namesrv: str, topic: str, group: str) -> Iterator[list[MessageExt]]:
    """Our consumer, which replies to everything with our producer."""
    requests: list[MessageExt] = []
    with rocketpy.sync.Producer(f"{group}-replies", namesrv=namesrv) as producer:

        def reply(request: MessageExt) -> None:
            requests.append(request)
            producer.send(create_reply_message(request, b"ours: " + request.body, keys=["k"]), timeout=TIMEOUT)

        consumer = rocketpy.sync.PushConsumer(group, namesrv=namesrv)
        consumer.subscribe(topic, reply)
        with consumer:
            consumer.wait_assigned(TIMEOUT)
            yield requests


def body(event: Event) -> str:
    return base64.b64decode(event["body"]).decode()


@pytest.mark.one_line("4.9.7", "5.3.3 gives up a request as soon as it is stored: one latch counts both")
def test_S18_java_asks_waits_and_we_reply(
    apache: Apache, cluster: Cluster, topic: str, fresh_name: Callable[[str], str]
) -> None:
    java_asks(apache, cluster.namesrv, topic, fresh_name("ours"), "request", ())


@pytest.mark.parametrize("headers", [(), jvm.ROCKETMQ_HEADERS], ids=["JSON", "ROCKETMQ"])
def test_S18_java_asks_is_called_back_and_we_reply(
    apache: Apache, cluster: Cluster, topic: str, fresh_name: Callable[[str], str], headers: tuple[str, ...]
) -> None:
    java_asks(apache, cluster.namesrv, topic, fresh_name("ours"), "request-callback", headers)


def java_asks(apache: Apache, namesrv: str, topic: str, group: str, mode: str, headers: tuple[str, ...]) -> None:
    """Java's producer asks ten times, our consumer replies."""
    with our_replier(namesrv, topic, group) as requests:
        with running(
            apache, "Producer", jvm_options=headers, namesrv=namesrv, topic=topic, count=10, mode=mode, tags="q"
        ) as driver:
            driver.process.wait_end(60)
            replies = driver.of("reply")
            assert driver.of("failed") == []
    assert sorted(map(body, replies)) == sorted(f"ours: body-{n}" for n in range(10))
    assert {each["topic"] for each in replies} == {f"{requests[0].system_properties['CLUSTER']}_REPLY_TOPIC"}
    properties = replies[0]["properties"]
    assert properties["KEYS"] == "k"
    assert properties["MSG_TYPE"] == "reply"
    assert {"CORRELATION_ID", "PUSH_REPLY_TIME", "ARRIVE_TIME", "UNIQ_KEY"} <= properties.keys()
    assert {request.system_properties["TTL"] for request in requests} == {"10000"}


def test_S18_we_ask_and_java_replies(
    apache: Apache, cluster: Cluster, topic: str, fresh_name: Callable[[str], str]
) -> None:
    with (
        java_push_consumer(apache, cluster.namesrv, fresh_name("java"), topic, reply="java: ") as consumer,
        rocketpy.sync.Producer("askers", namesrv=cluster.namesrv) as producer,
    ):
        first = producer.request(Message(topic, b"one", tags="q"), timeout=TIMEOUT)
        assert first.body == b"java: one"
        assert first.system_properties["MSG_TYPE"] == "reply"
        assert first.born_host.partition(":")[0] == "127.0.0.1"
        large = producer.request(Message(topic, b"x" * 20_000), timeout=TIMEOUT)
        assert large.body == b"java: " + b"x" * 20_000
        assert large.sys_flag & 1, "Java's producer has compressed it"
        futures = [producer.request_soon(Message(topic, b"%d" % n), timeout=TIMEOUT) for n in range(50)]
        assert [future.result().body for future in futures] == [b"java: %d" % n for n in range(50)]
        assert consumer.of("not replied") == []
        assert {each["status"] for each in consumer.wait("replied", 52)} == {"SEND_OK"}


@pytest.mark.one_line("5.3.3", "the broker does the same for each surface; either line is asked by the blocking one")
@pytest.mark.waits("until a request that nobody replies to has timed out")
@pytest.mark.parametrize("surface", ASYNC_SURFACES)
def test_S18_we_ask_and_reply_on_apaches_broker(
    apache_cluster: Cluster, fresh_name: Callable[[str], str], surface: str
) -> None:
    topic, namesrv = fresh_name("Ask"), apache_cluster.namesrv
    apache_cluster.create_topic(topic, queues=4)

    async def reply(request: MessageExt) -> None:
        if request.body != b"quiet":
            await producer.send(create_reply_message(request, b"ours: " + request.body, keys=["k"]), timeout=TIMEOUT)

    def consumer(module: Any) -> Any:
        made = module.PushConsumer(fresh_name("replies"), namesrv=namesrv)
        made.subscribe(topic, reply)
        return made

    with (
        loop_of(surface) as loop,
        entered(loop, surface, lambda module: module.Producer(fresh_name("askers"), namesrv=namesrv)) as producer,
        entered(loop, surface, consumer) as replier,
    ):
        loop.call(replier.wait_assigned, TIMEOUT)
        ask = partial(loop.start_task_soon, partial(producer.request, timeout=TIMEOUT))
        replies = [asked.result() for asked in [ask(Message(topic, b"%d" % n, tags="q")) for n in range(20)]]
        assert [each.body for each in replies] == [b"ours: %d" % n for n in range(20)]
        assert {(each.system_properties["MSG_TYPE"], each.keys) for each in replies} == {("reply", ("k",))}
        assert loop.call(producer.request, Message(topic, b"x" * 20_000)).body == b"ours: " + b"x" * 20_000
        with pytest.raises(ReplyTimeoutError):
            loop.call(partial(producer.request, timeout=SHORTLY), Message(topic, b"quiet"))


@pytest.mark.waits("until a request that nobody replies to has timed out")
def test_S18_a_reply_to_a_client_that_is_gone_is_refused_alike(
    apache: Apache, cluster: Cluster, topic: str, fresh_name: Callable[[str], str]
) -> None:
    """Either broker answers SYSTEM_ERROR; Java's client tries it three times, ours once where there is one broker."""
    with rocketpy.sync.Producer("askers", namesrv=cluster.namesrv) as producer:
        producer.send(Message(topic, b"warm"), timeout=TIMEOUT)  # the first message to a new broker may take longer
        with pytest.raises(ReplyTimeoutError):
            producer.request(Message(topic, b"nobody replies in time"), timeout=SHORTLY)
    errors: list[RocketMQError] = []
    with rocketpy.sync.Producer("replies", namesrv=cluster.namesrv) as producer:

        def reply(request: MessageExt) -> None:
            if request.body == b"warm":
                return
            with pytest.raises((BrokerError, SendError)) as caught:
                producer.send(create_reply_message(request, b"late"), timeout=TIMEOUT)
            errors.append(caught.value)

        consumer = rocketpy.sync.PushConsumer(
            fresh_name("late"), namesrv=cluster.namesrv, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        )
        consumer.subscribe(topic, reply)
        with consumer:
            eventually(lambda: errors or None, "a reply that is refused", 30)
    [error] = errors
    assert isinstance(error, BrokerError)
    assert error.code == 1
