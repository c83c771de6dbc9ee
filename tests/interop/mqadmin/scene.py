"""What the commands are called on: topics, groups, messages, and clients that are there. The same on every cluster.

Everything that is to be compared afterwards has the same name, the same number of queues and the same offsets.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import rocketpy.sync
from rocketpy import ConsumeFromWhere, Message, MessageExt, RetryLater
from tests.interop import probe
from tests.interop.inbox import Inbox
from tests.interop.settings import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocketpy import SendResult
    from tests.interop.apache import Cluster

BROKER = "broker-a"
TOPIC, SENT, LEAVING, EMPTY, TRACES = "Orders", "Invoices", "Leaving", "Nothing", "RMQ_SYS_TRACE_TOPIC"
GROUP, AWAY, COPY, PASSING, PRODUCERS = "billing", "audit", "archive", "passing", "shop"
QUEUES = 2
MESSAGES = 10
BAD = b"5"
"""The message that its consumer gives up."""

_OFFSET_OF, _COMMIT, _RUNTIME, _GET_MAX_OFFSET, _MAKE_GROUP, _PRODUCERS_OF = 14, 15, 28, 30, 200, 204
_HEARTBEAT = 0.5


@dataclass(frozen=True)
class Scene:
    """A cluster with the names by which steps refer to what is there."""

    directory: Path
    """Where commands write and read files."""
    places: dict[str, str]


@contextmanager
def prepared(cluster: Cluster, directory: Path) -> Iterator[Scene]:
    """Make what is to be there, and keep a producer and a consumer running."""
    _make(cluster)
    files(directory)
    inbox = Inbox()

    def take(message: MessageExt) -> RetryLater | None:
        inbox.take(message)
        return RetryLater(-1) if message.body == BAD else None

    with (
        rocketpy.sync.PushConsumer(
            GROUP,
            namesrv=cluster.namesrv,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            heartbeat_broker_interval=_HEARTBEAT,
            persist_consumer_offset_interval=_HEARTBEAT,
        ) as consumer,
        rocketpy.sync.Producer(
            PRODUCERS,
            namesrv=cluster.namesrv,
            heartbeat_broker_interval=_HEARTBEAT,
            send_timeout=10.0,
            enable_msg_trace=True,
            trace_msg_batch_num=1,
        ) as producer,
    ):
        consumer.subscribe(TOPIC, take)
        consumer.wait_assigned(30)
        sent = _send(producer)
        inbox.wait_here(MESSAGES)
        consumer.commit(10)
        _wait(cluster)
        yield Scene(directory, {**_places(cluster, directory, sent), "client": consumer.status().client_id})


def _make(cluster: Cluster) -> None:
    address = cluster.brokers[0].address
    for topic, queues in ((TOPIC, QUEUES), (SENT, 1), (LEAVING, QUEUES), (EMPTY, 1)):
        cluster.create_topic(topic, queues=queues)
    for group in (GROUP, AWAY, COPY, PASSING):
        probe.call(address, _MAKE_GROUP, {}, json.dumps({"groupName": group}).encode(), timeout=30.0)
    for group in (AWAY, COPY):  # the tool finds the brokers of a group by the topic of its retries
        cluster.create_topic(f"%RETRY%{group}", queues=1)


def files(directory: Path) -> None:
    """Those that commands read."""
    topics = [
        {"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6} for name in ("ListedA", "ListedB")
    ]
    groups = [{"groupName": name, "retryMaxTimes": 3} for name in ("listed-a", "listed-b")]
    (directory / "topics.json").write_text(json.dumps(topics), "utf-8")
    (directory / "groups.json").write_text(json.dumps(groups), "utf-8")


def _send(producer: rocketpy.sync.Producer) -> list[SendResult]:
    queues = producer.queues(TOPIC)
    messages = [
        Message(TOPIC, b"%d" % number, keys=[f"order-{number}"], tags="blue" if number % 2 else "red")
        for number in range(MESSAGES)
    ]
    return [producer.send(each, queue=queues[number % QUEUES]) for number, each in enumerate(messages)]


def _wait(cluster: Cluster) -> None:
    """Until the servers know everything: clients come with a heartbeat, dead letters and traces on their own."""
    address = cluster.brokers[0].address

    def count(topic: str) -> int:
        answer = probe.call(address, _GET_MAX_OFFSET, {"topic": topic, "queueId": 0})
        return int(answer.fields.get("offset", 0))

    probe.eventually(lambda: count(f"%DLQ%{GROUP}") == 1 or None, "a dead letter", 30.0)
    probe.eventually(lambda: count(TRACES) >= MESSAGES or None, "traces", 30.0)
    done = [MESSAGES // QUEUES] * QUEUES
    probe.eventually(lambda: _committed(address) == done or None, "the commit of the last message", 30.0)
    asked = {"producerGroup": PRODUCERS}
    probe.eventually(lambda: probe.call(address, _PRODUCERS_OF, asked).code == 0 or None, "the producer", 30.0)
    # A broker of 4.x fails to tell its state until it has counted for the first time.
    probe.eventually(lambda: probe.call(address, _RUNTIME).code == 0 or None, "the state of the broker", 30.0)
    for queue in range(QUEUES):
        fields = {"consumerGroup": AWAY, "topic": TOPIC, "queueId": queue, "commitOffset": queue + 1}
        probe.call(address, _COMMIT, fields)


def _committed(address: str) -> list[int]:
    """Where the running consumer stands in each queue."""
    asked = ({"consumerGroup": GROUP, "topic": TOPIC, "queueId": queue} for queue in range(QUEUES))
    return [int(probe.call(address, _OFFSET_OF, each).fields.get("offset", -1)) for each in asked]


def _places(cluster: Cluster, directory: Path, sent: list[SendResult]) -> dict[str, str]:
    return {
        "namesrv": cluster.namesrv,
        "broker": cluster.brokers[0].address,
        "dir": str(directory),
        "home": str(cluster.brokers[0].process.home),
        "namesrvHome": str(cluster.name_server.process.home),
        "message": sent[2].offset_message_id,
        "unique": sent[2].message_id,
        "name": BROKER,
        "cluster": CLUSTER,
    }
