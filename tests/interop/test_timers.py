"""Timer messages and recalls between Apache's clients and our broker, and between our clients and Apache's broker."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import ConfigError, IllegalOperationError, Message, MessageIllegalError, NoPermissionError
from rocketpy.wire.recall_handle import RecallHandle
from tests.interop import probe
from tests.interop.async_surfaces import ASYNC_SURFACES, entered, loop_of
from tests.interop.drivers import java_produce, java_push_consumer
from tests.interop.ours import our_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.interop.apache import Apache, Cluster

pytestmark = [pytest.mark.interop, pytest.mark.waits("for Apache's servers and clients, and for real timers")]

RECALLS = {"recallMessageEnable": True}
_ID = "AC11000100002A9F" * 2
"""Such as clients make."""
TICK_MS = 1_000
DELAY = 3.0
"""Seconds: a handle is good until the second before the message is due begins, and who recalls must be sooner."""
SLOW = 10.0
"""Seconds that a send may take: Apache's broker is cold."""


@pytest.fixture(scope="module")
def theirs(apache: Apache) -> Iterator[Cluster]:
    """Apache's servers, with recallMessageEnable=true."""
    with apache.cluster(overrides=RECALLS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ours() -> Iterator[Cluster]:
    """Our servers, likewise."""
    with our_cluster(overrides=RECALLS) as cluster:
        yield cluster


def test_DL3_DL5_javas_timer_messages_and_recalls_on_our_broker(
    apache: Apache, ours: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("java-timers")
    ours.create_topic(topic, queues=2)
    has_recall = apache.version.startswith("5")
    with java_push_consumer(apache, ours.namesrv, fresh_name("java-timed"), topic) as consumer:
        more = {"recall_every": 3} if has_recall else {}
        sent = java_produce(apache, ours.namesrv, topic, 9, delay_ms=round(DELAY * 1000), **more)
        assert all(bool(each["recallHandle"]) == has_recall for each in sent.results)
        expected = {each["msgId"] for each in sent.results if not has_recall or each["number"] % 3}
        consumer.wait("message", len(expected), 30.0)
        time.sleep(1)
        messages = consumer.messages
    assert sorted(each["msgId"] for each in messages) == sorted(expected)
    for each in messages:
        assert each["storeTimestamp"] >= each["bornTimestamp"] + DELAY * 1000
        # It is due in the tick that begins there. How long Java took to send it is not the broker's lateness, which is
        # some milliseconds, but for a machine that does other things.
        assert each["storeTimestamp"] <= int(each["properties"]["TIMER_OUT_MS"]) + TICK_MS + 1000


@pytest.mark.one_line("5.3.3", "4.9.7 has no timer")
def test_DL3_DL5_our_timer_messages_and_recalls_on_apaches_broker(
    theirs: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, came, due = fresh_name("our-timers"), dict[str, float](), dict[str, tuple[float, float]]()
    theirs.create_topic(topic, queues=2)
    consumer = rocketpy.sync.PushConsumer(fresh_name("our-timed"), namesrv=theirs.namesrv)
    consumer.subscribe(topic, lambda message: came.update({message.message_id: time.time()}))
    with consumer, rocketpy.sync.Producer("timers", namesrv=theirs.namesrv, send_timeout=SLOW) as producer:
        for number in range(6):
            moment = time.time() + DELAY
            # The first one, which opens connections, may take long: a delay begins at the broker.
            how = {"deliver_at": round(moment * 1000)} if number % 2 else {"delay": DELAY}
            result = producer.send(Message(topic, b"x", **how))
            assert result.recall_handle is not None
            if number >= 4:
                assert producer.recall(topic, result.recall_handle) == result.message_id
            else:
                due[result.message_id] = moment, time.time() + DELAY
        probe.eventually(lambda: came.keys() >= due.keys() or None, "the timer messages", 30.0)
        time.sleep(1.5)  # in which the recalled ones, due with the others, would come
        assert came.keys() == due.keys()
        look_at_times(came, due)
        with pytest.raises(MessageIllegalError):
            producer.send(Message(topic, b"x", delay=4 * 86_400))
        passed = RecallHandle(topic, "broker-a", "1", _ID)
        broker = producer.send(Message(topic, b"x")).queue.broker_name
        with pytest.raises(IllegalOperationError):
            producer.recall(topic, passed._replace(broker_name=broker).encode())


@pytest.mark.one_line("5.3.3", "4.9.7 has no timer")
def test_DL3_DL5_timer_messages_and_recalls_of_trio_and_asyncio_on_apaches_broker(
    theirs: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, came, due = fresh_name("async-timers"), dict[str, float](), dict[str, tuple[float, float]]()
    theirs.create_topic(topic, queues=2)
    consumer = rocketpy.sync.PushConsumer(fresh_name("async-timed"), namesrv=theirs.namesrv)
    consumer.subscribe(topic, lambda message: came.update({message.message_id: time.time()}))
    with consumer, ExitStack() as stack:
        settings = {"namesrv": theirs.namesrv, "send_timeout": SLOW}
        for surface in ASYNC_SURFACES:
            loop = stack.enter_context(loop_of(surface))
            group = fresh_name(f"{surface}-timers")
            producer = stack.enter_context(
                entered(loop, surface, lambda module, group=group: module.Producer(group, **settings))
            )
            for way in ("delay", "deliver_at") * 2:
                moment = time.time() + DELAY
                how = {"delay": DELAY} if way == "delay" else {"deliver_at": round(moment * 1000)}
                result = loop.call(producer.send, Message(topic, b"x", **how))
                due[result.message_id] = moment, time.time() + DELAY
            result = loop.call(producer.send, Message(topic, b"x", delay=DELAY))
            assert loop.call(producer.recall, topic, result.recall_handle) == result.message_id
        probe.eventually(lambda: came.keys() >= due.keys() or None, "the timer messages", 30.0)
        time.sleep(1.5)  # in which the recalled ones, due with the others, would come
    assert came.keys() == due.keys()
    look_at_times(came, due)


def look_at_times(came: dict[str, float], due: dict[str, tuple[float, float]]) -> None:
    """Each message came when it was due, counted from before its send and from after it, and little later."""
    for key, (soonest, latest) in due.items():
        assert soonest - 0.05 <= came[key] <= latest + 2.5, "it reads slots by the second"


def test_DL3_DL5_what_apaches_broker_does_not_do_has_an_error(
    apache: Apache, apache_cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("no-recalls")
    apache_cluster.create_topic(topic, queues=2)
    with rocketpy.sync.Producer("timers", namesrv=apache_cluster.namesrv) as producer:
        broker = producer.send(Message(topic, b"x")).queue.broker_name
        handle = RecallHandle(topic, broker, str(round((time.time() + 60) * 1000)), _ID).encode()
        if apache.version.startswith("5"):
            with pytest.raises(NoPermissionError):
                producer.recall(topic, handle)
        else:
            with pytest.raises(ConfigError, match="older than RocketMQ 5"):
                producer.send(Message(topic, b"x", delay=1))
            with pytest.raises(rocketpy.RequestCodeNotSupportedError):
                producer.recall(topic, handle)


@pytest.mark.one_line("5.3.3", "4.9.7 has no timer")
def test_DL3_without_a_timer_both_brokers_say_so(apache: Apache, fresh_name: Callable[[str], str]) -> None:
    without = {"timerWheelEnable": False}
    topic = fresh_name("no-timer")
    for cluster in (apache.cluster(overrides=without), our_cluster(overrides=without)):
        with cluster as running, rocketpy.sync.Producer("timers", namesrv=running.namesrv) as producer:
            running.create_topic(topic, queues=1)
            with pytest.raises(rocketpy.SendError, match="timer message is not enabled"):
                producer.send(Message(topic, b"x", delay=1))
