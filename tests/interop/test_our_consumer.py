"""Our push consumer, on trio and blocking, on Apache's servers with Apache's producer."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

import rocketpy
import rocketpy.sync
from rocketpy import ConsumeFromWhere, ConsumeResult, Message, MessageExt, RetryLater
from tests.interop import probe
from tests.interop.drivers import java_produce
from tests.interop.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.apache import Apache, Cluster
    from tests.interop.drivers import JavaAdmin, Sent

pytestmark = [pytest.mark.interop, pytest.mark.waits("waits for Apache's server")]

FROM_FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
GET_MAX_OFFSET = 30


@pytest.fixture
def produce(apache: Apache, apache_cluster: Cluster) -> Callable[..., Sent]:
    return partial(java_produce, apache, apache_cluster.namesrv)


@pytest.fixture
def consumer(apache_cluster: Cluster, fresh_name: Callable[[str], str]) -> Callable[..., rocketpy.PushConsumer]:
    """Makes consumers, of a group of their own unless told otherwise."""

    def make(group: str | None = None, **fields: object) -> rocketpy.PushConsumer:
        fields = {"namesrv": apache_cluster.namesrv, "consume_from_where": FROM_FIRST, **fields}
        return rocketpy.PushConsumer(group or fresh_name("python-group"), **fields)

    return make


def bodies(messages: list[MessageExt]) -> list[str]:
    return sorted(message.body.decode() for message in messages)


def numbered(first: int, last: int) -> list[str]:
    return sorted(f"body-{n}" for n in range(first, last))


# --- what comes ----------------------------------------------------------------------------------------


async def test_everything_about_apaches_messages_arrives(
    apache_cluster: Cluster,
    consumer: Callable[..., rocketpy.PushConsumer],
    produce: Callable[..., Sent],
    fresh_name: Callable[[str], str],
    apache_admin: JavaAdmin,
) -> None:
    topic, inbox = fresh_name("To-python"), Inbox()
    apache_cluster.create_topic(topic, queues=4)
    async with consumer() as opened:
        opened.subscribe(topic, inbox.take)
        assert len(await opened.wait_assigned(20)) == 4
        sent = await trio.to_thread.run_sync(
            partial(
                produce,
                topic,
                40,
                keys="ключ-%d second",
                tags="Größe,red",
                properties="shop=北,n=7,contentType=text/plain",
            )
        )
        large = await trio.to_thread.run_sync(partial(produce, topic, 2, first=40, body_size=9_000, mode="async"))
        messages = await inbox.wait(42)
        (client,) = (
            await trio.to_thread.run_sync(partial(apache_admin.run, "consumers", group=opened.config.group))
        ).items()
        assert client[0] == opened.status().client_id
        assert client[1]["language"] == "PYTHON"
    results = {each["msgId"]: each for each in sent.results + large.results}
    assert {message.message_id for message in messages} == set(results)
    for message in messages:
        result = results[message.message_id]
        assert message.queue == (topic, result["brokerName"], result["queueId"])
        assert (message.queue_offset, message.offset_message_id) == (result["queueOffset"], result["offsetMsgId"])
        assert (message.reconsume_times, message.flag) == (0, 0)
        assert abs(message.store_timestamp - message.born_timestamp) < 10_000
        assert message.store_host == apache_cluster.brokers[0].address
        if (number := result["number"]) >= 40:
            assert message.body == f"body-{number}".encode().ljust(9_000, b".")
        else:
            assert (message.body, message.value) == (b"body-%d" % number, f"body-{number}")
            assert message.keys == (f"ключ-{number}", "second")
            assert message.tags == ("Größe", "red")[number % 2]
            assert (message.properties["shop"], message.properties["n"]) == ("北", "7")


async def test_only_the_subscribed_tags_come_although_two_have_one_hash(
    apache_cluster: Cluster,
    consumer: Callable[..., rocketpy.PushConsumer],
    produce: Callable[..., Sent],
    fresh_name: Callable[[str], str],
) -> None:
    topic, inbox = fresh_name("Tags"), Inbox()
    apache_cluster.create_topic(topic, queues=2)
    async with consumer() as opened:
        opened.subscribe(topic, inbox.take, tags="Aa || red")
        await opened.wait_assigned(20)
        # "BB" has the hash of "Aa": Apache's broker lets it through.
        await trio.to_thread.run_sync(partial(produce, topic, 16, tags="Aa,BB,red,blue", mode="batch", batch_size=4))
        await inbox.wait(8)
        group = opened.config.group
    assert sorted(message.tags or "" for message in inbox.messages) == ["Aa"] * 4 + ["red"] * 4
    # What was sorted out counts as consumed.
    ends = await trio.to_thread.run_sync(committed, apache_cluster, group, topic, 2)
    assert sum(ends) == 16


def committed(cluster: Cluster, group: str, topic: str, queues: int) -> list[int]:
    """The committed offset of every queue, 0 where there is none."""
    answers = [
        probe.call(cluster.brokers[0].address, 14, {"consumerGroup": group, "topic": topic, "queueId": queue_id})
        for queue_id in range(queues)
    ]
    return [int(answer.fields.get("offset", 0)) for answer in answers]


@pytest.mark.parametrize("kind", ["tags", "sql"])
def test_a_subscription_that_widens_while_it_runs_misses_nothing(
    apache_cluster: Cluster, fresh_name: Callable[[str], str], kind: str
) -> None:
    """Messages sent after `subscribe` returns arrive, although the broker still holds pulls with the old filter."""
    topic, inbox = fresh_name("Widening"), Inbox()
    apache_cluster.create_topic(topic, queues=2)

    def wanted(most: int) -> dict[str, str]:
        tags = [f"t{number}" for number in range(most + 1)]
        return {"tags": " || ".join(tags)} if kind == "tags" else {"sql": f"TAGS IN ({str(tags)[1:-1]})"}

    with (
        rocketpy.sync.Producer("widening", namesrv=apache_cluster.namesrv) as producer,
        rocketpy.sync.PushConsumer(
            fresh_name("widening-group"), namesrv=apache_cluster.namesrv, consume_from_where=FROM_FIRST
        ) as opened,
    ):
        opened.subscribe(topic, inbox.take, **wanted(0))
        opened.wait_assigned(20)
        producer.send(Message(topic, b"0", tags="t0"))
        inbox.wait_here(1)  # both queues are pulled, and will be held
        for number in range(1, 6):
            opened.subscribe(topic, inbox.take, **wanted(number))
            producer.send(Message(topic, b"%d" % number, tags=f"t{number}"))
            producer.send(Message(topic, b"0", tags="t0"))  # ends the waiting of pulls with any filter
            inbox.wait_here(1 + number)
        probe.eventually(lambda: len(inbox.messages) >= 11 or None, "11 messages", 20.0)
        opened.commit()
    assert sorted(message.body for message in inbox.messages) == sorted([b"0"] * 6 + [b"%d" % n for n in range(1, 6)])


# --- again ---------------------------------------------------------------------------------------------


async def test_what_fails_comes_again_and_then_lies_among_the_dead(
    apache_cluster: Cluster,
    consumer: Callable[..., rocketpy.PushConsumer],
    produce: Callable[..., Sent],
    fresh_name: Callable[[str], str],
) -> None:
    topic, inbox = fresh_name("Again"), Inbox()
    apache_cluster.create_topic(topic, queues=1)

    async def listen(message: MessageExt) -> ConsumeResult | RetryLater:
        inbox.take(message)
        if message.body == b"body-0":
            raise ValueError("never")
        if message.reconsume_times == 0:
            return RetryLater(1) if message.body == b"body-1" else ConsumeResult.RETRY
        return ConsumeResult.SUCCESS

    async with consumer(max_reconsume_times=1) as opened:
        opened.subscribe(topic, listen)
        await opened.wait_assigned(20)
        await trio.to_thread.run_sync(partial(produce, topic, 3, tags="red", keys="key-%d"))
        messages = await inbox.wait(6)
        dead = f"%DLQ%{opened.config.group}"
        await trio.to_thread.run_sync(wait_dead_letter, apache_cluster, dead)
    attempts = sorted((message.body, message.reconsume_times) for message in messages)
    assert attempts == [(b"body-%d" % n, attempt) for n in range(3) for attempt in (0, 1)]
    assert len({message.message_id for message in messages}) == 3
    for message in messages:
        assert (message.topic, message.tags, message.keys) == (topic, "red", (f"key-{message.body.decode()[-1]}",))


async def test_what_its_broker_does_not_take_back_is_a_dead_letter_as_a_new_message(
    apache_cluster: Cluster,
    consumer: Callable[..., rocketpy.PushConsumer],
    produce: Callable[..., Sent],
    fresh_name: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, inbox = fresh_name("Dead"), Inbox()
    apache_cluster.create_topic(topic, queues=1)

    async def refuse(*_: object) -> None:
        raise rocketpy.BrokerUnreachableError("its master is away", topic=topic)

    def listen(message: MessageExt) -> RetryLater:
        inbox.take(message)
        return RetryLater(-1)

    monkeypatch.setattr("rocketpy.consumer.calling.send_back.SendBack._ask_its_broker", refuse)
    async with consumer() as opened:
        opened.subscribe(topic, listen)
        await opened.wait_assigned(20)
        await trio.to_thread.run_sync(partial(produce, topic, 1))
        await inbox.wait(1)
        await trio.to_thread.run_sync(wait_dead_letter, apache_cluster, f"%DLQ%{opened.config.group}")
        assert opened.statistics().sent_as_new == 1
        assert len(inbox.messages) == 1


async def test_a_retry_that_nobody_listens_to_keeps_its_attempts(
    apache_cluster: Cluster,
    consumer: Callable[..., rocketpy.PushConsumer],
    produce: Callable[..., Sent],
    fresh_name: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, other, first, later = fresh_name("Unheard"), fresh_name("Other"), Inbox(), Inbox()
    for each in (topic, other):
        apache_cluster.create_topic(each, queues=1)
    monkeypatch.setattr("rocketpy.consumer.calling.unheard.PATIENCE", 0.2)
    monkeypatch.setattr("rocketpy.consumer.calling.send_back.WAIT_DELAY_LEVEL", 1)

    async def listen(message: MessageExt) -> RetryLater:
        first.take(message)
        return RetryLater(1)

    async with consumer() as opened:
        opened.subscribe(other, later.take)
        opened.subscribe(topic, listen)
        await opened.wait_assigned(20)
        await trio.to_thread.run_sync(partial(produce, topic, 1))
        await first.wait(1)
        with trio.fail_after(30):
            while not opened.statistics().sent_back:  # noqa: ASYNC110  the broker's time, not ours
                await trio.sleep(0.01)
            opened.unsubscribe(topic)
            while opened.statistics().sent_as_new < 2:  # noqa: ASYNC110  the broker's time, not ours
                await trio.sleep(0.05)
        opened.subscribe(topic, later.take)
        [message] = await later.wait(1)
        # Where the producer takes long to end, it is listened to more than once before that.
        assert (message.topic, message.reconsume_times) == (topic, len(first.messages))
        assert message.message_id == first.messages[0].message_id


def wait_dead_letter(cluster: Cluster, topic: str) -> None:
    def look() -> bool | None:
        answer = probe.call(cluster.brokers[0].address, GET_MAX_OFFSET, {"topic": topic, "queueId": 0})
        return answer.fields.get("offset") == "1" or None

    probe.eventually(look, f"a message in {topic}", 20.0)


# --- going and coming ----------------------------------------------------------------------------------


async def test_a_group_goes_on_where_it_stopped(
    apache_cluster: Cluster,
    consumer: Callable[..., rocketpy.PushConsumer],
    produce: Callable[..., Sent],
    fresh_name: Callable[[str], str],
) -> None:
    topic, group, first, second = fresh_name("Kept"), fresh_name("kept-group"), Inbox(), Inbox()
    apache_cluster.create_topic(topic, queues=4)
    async with consumer(group) as opened:
        opened.subscribe(topic, first.take)
        await opened.wait_assigned(20)
        await trio.to_thread.run_sync(partial(produce, topic, 50))
        await first.wait(50)
    assert sum(await trio.to_thread.run_sync(committed, apache_cluster, group, topic, 4)) == 50
    await trio.to_thread.run_sync(partial(produce, topic, 10, first=50))
    async with consumer(group) as opened:
        opened.subscribe(topic, second.take)
        await second.wait(10)
    assert bodies(first.messages) == numbered(0, 50)
    assert bodies(second.messages) == numbered(50, 60)


async def test_closing_amid_the_work_loses_nothing_and_repeats_next_to_nothing(
    apache_cluster: Cluster,
    consumer: Callable[..., rocketpy.PushConsumer],
    produce: Callable[..., Sent],
    fresh_name: Callable[[str], str],
) -> None:
    topic, group, inbox = fresh_name("Close"), fresh_name("close-group"), Inbox()
    apache_cluster.create_topic(topic, queues=4)
    await trio.to_thread.run_sync(partial(produce, topic, 300, mode="async"))

    async def listen(message: MessageExt) -> None:
        await trio.sleep(0.02)
        inbox.take(message)

    for _ in range(3):
        before = len(inbox.messages)
        async with consumer(group, consume_thread_max=8) as opened:
            opened.subscribe(topic, listen)
            await inbox.wait(before + 60)
    async with consumer(group) as opened:
        opened.subscribe(topic, inbox.take)
        while len({message.body for message in inbox.messages}) < 300:
            await inbox.wait(len(inbox.messages) + 1)
    got = bodies(inbox.messages)
    assert sorted(set(got)) == numbered(0, 300)
    # Apache's broker works on pulls and on commits in threads of different pools: a pull that was sent before the last
    # commit of a consumer may be worked on after it, and take the offset of its queue back to what it says itself.
    closings, one_pull = 3, 32
    assert len(got) - 300 <= closings * one_pull


def test_the_blocking_consumer_shares_a_group_with_another(
    apache_cluster: Cluster, produce: Callable[..., Sent], fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Blocking"), fresh_name("blocking-group")
    apache_cluster.create_topic(topic, queues=4)
    boxes = [Inbox(), Inbox()]
    threads: set[threading.Thread] = set()

    def listen(box: Inbox, message: MessageExt) -> None:
        threads.add(threading.current_thread())
        box.take(message)

    with (
        blocking(apache_cluster, group, topic, partial(listen, boxes[0]), "one") as first,
        blocking(apache_cluster, group, topic, partial(listen, boxes[1]), "two") as second,
    ):
        shares = probe.eventually(lambda: even_shares(first, second), "two shares of two queues", 30.0)
        produce(topic, 40)
        probe.eventually(lambda: sum(len(box.messages) for box in boxes) >= 40 or None, "40 messages", 30.0)
    assert [bodies(box.messages) == [] for box in boxes] == [False, False]
    assert bodies(boxes[0].messages + boxes[1].messages) == numbered(0, 40)
    for box, share in zip(boxes, shares, strict=True):
        assert {message.queue for message in box.messages} == set(share)
    assert threading.main_thread() not in threads


def blocking(
    cluster: Cluster, group: str, topic: str, listener: Callable[[MessageExt], None], name: str
) -> rocketpy.sync.PushConsumer:
    made = rocketpy.sync.PushConsumer(group, namesrv=cluster.namesrv, consume_from_where=FROM_FIRST, instance_name=name)
    made.subscribe(topic, listener)
    return made


def even_shares(*consumers: rocketpy.sync.PushConsumer) -> list[tuple[rocketpy.MessageQueue, ...]] | None:
    shares = [each.assignment for each in consumers]
    return shares if [len(share) for share in shares] == [2, 2] else None
