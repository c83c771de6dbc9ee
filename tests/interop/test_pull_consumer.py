"""Plain pull consumers, which name a queue and an offset: Apache's and ours get the same answers of both brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import rocketpy.sync
from rocketpy import Message
from tests.interop import lines, probe
from tests.interop.drivers import java_pull_consumer

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy import MessageQueue, PullResult
    from tests.interop.apache import Apache, Cluster
    from tests.interop.drivers import Event

pytestmark = [pytest.mark.interop, pytest.mark.waits("waits for Apache's servers and clients")]

FOREVER = 9_999_999_999_999
QUERY_CONSUMER_OFFSET = 14


@pytest.fixture(params=["apache_cluster", "our_servers"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def topic(cluster: Cluster, fresh_name: Callable[[str], str]) -> str:
    """A topic of two queues; the first has ten messages, those with an even number red, the others green."""
    name = fresh_name("Pull")
    cluster.create_topic(name, queues=2)
    send(cluster, name, *range(10))
    return name


def send(cluster: Cluster, topic: str, *numbers: int) -> None:
    with rocketpy.sync.Producer("pull-senders", namesrv=cluster.namesrv, send_timeout=10.0) as producer:
        first, _ = producer.queues(topic)
        for number in numbers:
            producer.send(Message(topic, b"body-%d" % number, tags="green" if number % 2 else "red"), queue=first)


def pull(offset: int, *, do: str = "pull", queue: int = 0, tags: str = "*", most: int = 32) -> Event:
    """A step: for Java as `java/PullConsumer.java` reads it, for ours as `take` does."""
    return {"do": do, "queue": queue, "offset": offset, "tags": tags, "most": most}


def bodies(*numbers: int) -> list[str]:
    return [f"body-{number}" for number in numbers]


def found(*numbers: int, then: int, end: int = 10) -> Event:
    return {"status": "FOUND", "next": then, "min": 0, "max": end, "bodies": bodies(*numbers)}


def nothing(status: str, then: int, end: int = 10) -> Event:
    return {"status": status, "next": then, "min": 0, "max": end, "bodies": []}


STEPS: list[tuple[Event, object]] = [
    ({"do": "queues"}, [0, 1]),
    ({"do": "ends", "queue": 0}, [0, 10]),
    (pull(0, most=4), found(0, 1, 2, 3, then=4)),
    (pull(4), found(4, 5, 6, 7, 8, 9, then=10)),
    (pull(0, tags="green", most=3), found(1, 3, 5, then=6)),
    (pull(0, tags="blue"), nothing("NO_MATCHED_MSG", 10)),
    (pull(10), nothing("NO_NEW_MSG", 10)),
    (pull(99), nothing("OFFSET_ILLEGAL", 10)),
    (pull(0, queue=1), nothing("NO_NEW_MSG", 0, end=0)),
    ({"do": "pull_sql", "queue": 0, "offset": 2, "most": 32, "sql": "TAGS = 'red'"}, found(2, 4, 6, 8, then=10)),
    ({"do": "search", "queue": 0, "timestamp": 0}, 0),
]


def take(consumer: rocketpy.sync.PullConsumer, topic: str, step: Event) -> object:
    """What our consumer is answered at a step."""
    queues = consumer.fetch_message_queues(topic)
    queue, do = queues[step.get("queue", 0)], step["do"]
    if do == "queues":
        return [each.queue_id for each in queues]
    if do == "ends":
        return [consumer.beginning_offset(queue), consumer.end_offset(queue)]
    if do == "search":
        return consumer.offset_for_timestamp(queue, step["timestamp"])
    if do == "pull_sql":
        return described(consumer.pull(queue, step["offset"], max_messages=step["most"], sql=step["sql"]))
    assert do == "pull"
    return described(consumer.pull(queue, step["offset"], max_messages=step["most"], tags=step["tags"]))


def described(result: PullResult) -> Event:
    return {
        "status": result.status.name,
        "next": result.next_begin_offset,
        "min": result.min_offset,
        "max": result.max_offset,
        "bodies": [message.body.decode() for message in result.messages],
    }


def java_told(apache: Apache, cluster: Cluster, group: str, topic: str, steps: list[Event]) -> list[Any]:
    """What Java's consumer is answered."""
    with java_pull_consumer(apache, cluster.namesrv, group, topic, steps) as java:
        told = java.wait("told", len(steps))
        java.process.wait_end(30)
    return [each["value"] for each in told]


def test_both_get_the_same_answers(
    apache: Apache, cluster: Cluster, topic: str, fresh_name: Callable[[str], str]
) -> None:
    steps, expected = [step for step, _ in STEPS], [answer for _, answer in STEPS]
    assert java_told(apache, cluster, fresh_name("pull-group"), topic, steps) == expected
    with rocketpy.sync.PullConsumer(fresh_name("pull-group"), namesrv=cluster.namesrv) as ours:
        assert [take(ours, topic, step) for step in steps] == expected


def test_a_pull_that_finds_nothing_waits_for_a_message(
    apache: Apache, cluster: Cluster, topic: str, fresh_name: Callable[[str], str]
) -> None:
    """A message of another tag does not wake it."""
    group, blocked = fresh_name("pull-group"), pull(10, do="pull_block", tags="green")
    with (
        java_pull_consumer(apache, cluster.namesrv, group, topic, [blocked]) as java,
        rocketpy.sync.PullConsumer(fresh_name("pull-group"), namesrv=cluster.namesrv) as ours,
    ):
        first, _ = ours.fetch_message_queues(topic)
        java.wait("asking")
        send(cluster, topic, 10)
        send(cluster, topic, 11)
        [told] = java.wait("told")
        assert told["value"]["bodies"] == bodies(11)
        assert described(ours.pull_block_if_not_found(first, 10, tags="green"))["bodies"] == bodies(11)
        assert told["value"]["next"] == 12


def test_offsets_are_searched_by_time(
    apache: Apache, cluster: Cluster, our_servers: Cluster, topic: str, fresh_name: Callable[[str], str]
) -> None:
    with rocketpy.sync.PullConsumer(fresh_name("pull-group"), namesrv=cluster.namesrv) as ours:
        first, _ = ours.fetch_message_queues(topic)
        times = [message.store_timestamp for message in ours.pull(first, 0).messages]
        steps: list[Event] = [{"do": "search", "queue": 0, "timestamp": each} for each in (*times, FOREVER)]
        expected = [times.index(each) for each in times] + [10]
        told = [take(ours, topic, step) for step in steps]
    if cluster is our_servers or lines.of(apache.version).finds_times:
        assert told == expected
    assert java_told(apache, cluster, fresh_name("pull-group"), topic, steps) == told


def test_one_goes_on_where_the_other_has_committed(
    apache: Apache, cluster: Cluster, topic: str, fresh_name: Callable[[str], str]
) -> None:
    group = fresh_name("pull-group")
    ask: Event = {"do": "committed", "queue": 0}
    update: Event = {"do": "update", "queue": 0, "offset": 6}
    assert java_told(apache, cluster, group, topic, [ask, update]) == [0, None]

    def committed(queue: MessageQueue) -> int | None:
        return ours.fetch_consume_offset(queue)

    with rocketpy.sync.PullConsumer(group, namesrv=cluster.namesrv) as ours:
        first, _ = ours.fetch_message_queues(topic)
        # Java commits without waiting for an answer.
        probe.eventually(lambda: committed(first) == 6 or None, "the offset that Java has committed", 20.0)
        ours.update_consume_offset(first, 3)
    assert java_told(apache, cluster, group, topic, [ask]) == [3]
