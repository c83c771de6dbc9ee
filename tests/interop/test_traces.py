"""Traces: ours as Apache's `mqadmin` shows them, Apache's as we read them, on Apache's broker and on ours."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import LocalTransactionState, Message, TraceRecord, decode_traces
from rocketpy.trace.records import ContextCode, MessageType
from tests.interop.drivers import java_produce, java_push_consumer
from tests.interop.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy import MessageExt
    from tests.interop.apache import Apache, Cluster
    from tests.interop.drivers import JavaAdmin

pytestmark = pytest.mark.interop

WITHIN = 30.0


@pytest.fixture(params=["Apache's broker", "our broker"])
def cluster(request: pytest.FixtureRequest, apache: Apache) -> Cluster:
    """Either broker, beside the clients of each line."""
    name = "apache_cluster" if request.param == "Apache's broker" else "our_servers"
    found: Cluster = request.getfixturevalue(name)
    return found


@pytest.fixture
def topics(cluster: Cluster, fresh_name: Callable[[str], str]) -> tuple[str, str]:
    """One for messages, and one for their traces."""
    names = fresh_name("Traced"), fresh_name("Traces")
    for name in names:
        cluster.create_topic(name, queues=1)
    return names


def records(namesrv: str, topic: str) -> list[TraceRecord]:
    """What stands on a topic of traces."""
    found: list[TraceRecord] = []
    with rocketpy.sync.PullConsumer("reader", namesrv=namesrv) as reader:
        for queue in reader.fetch_message_queues(topic):
            offset, end = reader.beginning_offset(queue), reader.end_offset(queue)
            while offset < end:
                result = reader.pull(queue, offset)
                offset = result.next_begin_offset
                found += [record for message in result.messages for record in decode_traces(message.body)]
    return found


def test_mqadmin_shows_who_sent_a_message_of_ours_and_who_consumed_it(
    admin_at: Callable[[str], JavaAdmin],
    cluster: Cluster,
    topics: tuple[str, str],
    fresh_name: Callable[[str], str],
) -> None:
    topic, traces = topics
    group = fresh_name("readers")
    got = threading.Semaphore(0)
    settings = {"namesrv": cluster.namesrv, "enable_msg_trace": True, "trace_topic": traces}
    consumer = rocketpy.sync.PushConsumer(group, **settings)

    def listen(message: MessageExt) -> None:
        got.release()

    consumer.subscribe(topic, listen)
    with consumer:
        consumer.wait_assigned(WITHIN)
        with rocketpy.sync.Producer("ours", send_timeout=10.0, **settings) as producer:
            sent = [producer.send(Message(topic, b"%d" % number, keys=[f"k{number}"])) for number in range(5)]
        for _ in sent:
            assert got.acquire(timeout=WITHIN)
    admin = admin_at(cluster.namesrv)
    for result in sent:

        def shown(message_id: str = result.message_id) -> str | None:
            printed = admin.mqadmin("queryMsgTraceById", n=cluster.namesrv, i=message_id, t=traces)
            return printed if "Pub" in printed and "Sub" in printed else None

        printed = eventually(shown, f"the trace of {result.message_id}", WITHIN)
        lines = {line.split()[0]: line.split() for line in printed.splitlines() if line[:3] in ("Pub", "Sub")}
        assert (lines["Pub"][1], lines["Pub"][-1]) == ("ours", "success"), printed
        assert (lines["Sub"][1], lines["Sub"][-1]) == (group, "success"), printed


def commit(message: Message, arg: object = None) -> LocalTransactionState:
    """An executor, and a checker."""
    return LocalTransactionState.COMMIT


def test_mqadmin_reads_the_trace_of_a_transaction(
    admin_at: Callable[[str], JavaAdmin], cluster: Cluster, topics: tuple[str, str]
) -> None:
    """It prints no ends of transactions, and has to read past them: they travel in one message with the sends."""
    topic, traces = topics
    settings = {"namesrv": cluster.namesrv, "enable_msg_trace": True, "trace_topic": traces, "send_timeout": 10.0}
    with rocketpy.sync.TransactionProducer("ours", checker=commit, **settings) as producer:
        sent = [producer.send_in_transaction(Message(topic, b"in a transaction"), commit) for _ in range(3)]
    ids = {each.send_result.message_id for each in sent}

    def all_there() -> list[TraceRecord] | None:
        found = records(cluster.namesrv, traces)
        return found if len(found) == 6 else None

    found = eventually(all_there, "the records of three transactions", WITHIN)
    for kind in ("Pub", "EndTransaction"):
        assert {record.message_id for record in found if record.kind == kind} == ids
    admin = admin_at(cluster.namesrv)
    for message_id in ids:
        printed = admin.mqadmin("queryMsgTraceById", n=cluster.namesrv, i=message_id, t=traces)
        [line] = [line.split() for line in printed.splitlines() if line.startswith("Pub")]
        assert (line[1], line[-1]) == ("ours", "success"), printed


def test_what_apaches_clients_record_is_read(
    apache: Apache, cluster: Cluster, topics: tuple[str, str], fresh_name: Callable[[str], str]
) -> None:
    topic, traces = topics
    group = fresh_name("readers")
    with java_push_consumer(apache, cluster.namesrv, group, topic, **{"trace-topic": traces}) as consumer:
        sent = java_produce(
            apache, cluster.namesrv, topic, 5, group="theirs", keys="k%d extra", tags="red", **{"trace-topic": traces}
        )
        consumer.wait_messages(5)
        consumer.finish()
    ids = {event["msgId"] for event in sent.results}

    def all_there() -> list[TraceRecord] | None:
        found = records(cluster.namesrv, traces)
        return found if len(found) >= 15 else None

    found = eventually(all_there, "fifteen records", WITHIN)
    kinds = {kind: [each for each in found if each.kind == kind] for kind in ("Pub", "SubBefore", "SubAfter")}
    for each in kinds.values():
        assert {record.message_id for record in each} == ids
    for record in kinds["Pub"]:
        assert (record.group, record.topic, record.tags) == ("theirs", topic, "red")
        assert (record.keys or "").endswith(" extra")
        assert (record.message_type, record.success) == (MessageType.NORMAL, True)
    for record in kinds["SubAfter"]:
        assert (record.success, record.context_code) == (True, ContextCode.SUCCESS)
    assert {record.request_id for record in kinds["SubBefore"]} == {record.request_id for record in kinds["SubAfter"]}
    assert {record.group for record in kinds["SubBefore"]} == {group}
