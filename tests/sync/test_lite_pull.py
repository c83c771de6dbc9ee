"""The blocking lite pull consumer and pull consumer against a real name server and broker, over TCP."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter

import pytest

from rocketpy import PullStatus
from rocketpy.consumer.lite.polling import Polling
from rocketpy.errors import ClientClosedError, ConfigError, OffsetOutOfRangeError, QueueNotAssignedError
from rocketpy.sync import ConsumeFromWhere, LitePullConsumer, Message, MQClientInstance, Producer, PullConsumer
from tests.forking import in_child

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


@pytest.fixture
def lite(namesrv):
    def make(group, **settings):
        return LitePullConsumer(group, namesrv=namesrv, consume_from_where=FIRST, **settings)

    return make


def fill(namesrv, topic, count, queues=4, first=0):
    with Producer("pg", namesrv=namesrv) as producer:
        producer.create_topic(topic, queues=queues)
        for number in range(first, first + count):
            producer.send(Message(topic, b"%d" % number))


def drain(consumer, count):
    got = []
    end = time.monotonic() + 20
    while len(got) < count:
        assert time.monotonic() < end, f"{len(got)} of {count} came"
        got += consumer.poll(timeout=1)
    return got


def test_PL8_it_polls_commits_and_goes_on(namesrv, topic, lite):
    fill(namesrv, topic, 60)
    for turn in range(2):
        with lite(f"{topic}_g", auto_commit=False) as consumer:
            consumer.subscribe(topic)
            assert len(consumer.wait_assigned(10)) == 4
            got = drain(consumer, 60 - 30 * turn)
            if not turn:
                half = dict.fromkeys(consumer.assignment, 0)
                for message in got:
                    if sum(half.values()) < 30:
                        half[message.queue] = message.queue_offset + 1
                consumer.commit(half)
                assert [consumer.committed(queue) for queue in sorted(half)] == [half[queue] for queue in sorted(half)]
            assert consumer.status().group == f"{topic}_g"
    assert sum(half.values()) >= 30


def test_a_loop_gives_back_what_it_has_fetched_ahead(namesrv, topic, lite):
    fill(namesrv, topic, 40, queues=1)
    with lite(f"{topic}_g", auto_commit=False) as consumer:
        consumer.subscribe(topic)
        (queue,) = consumer.wait_assigned(10)
        seen = []
        for message in consumer:
            seen.append(message.queue_offset)
            assert consumer.position(queue) == len(seen)
            if len(seen) == 13:
                break
        consumer.commit()
        # The loop had fetched more; nobody has seen it.
        assert consumer.committed(queue) == 13
        assert [message.queue_offset for message in consumer.poll(3)] == [13, 14, 15]
        assert [next(consumer).queue_offset for _ in range(5)] == list(range(16, 21))
        consumer.seek(queue, 2)
        assert [next(consumer).queue_offset for _ in range(38)] == list(range(2, 40))
        consumer.commit_soon()


def test_a_loop_ends_when_another_thread_closes(namesrv, topic, lite):
    fill(namesrv, topic, 20)
    consumer, got, started = lite(f"{topic}_g"), [], threading.Event()
    consumer.subscribe(topic)
    consumer.start()

    def loop():
        for message in consumer:
            got.append(message.body)
            if len(got) == 20:
                started.set()

    thread = threading.Thread(target=loop)
    thread.start()
    assert started.wait(20)
    consumer.close()
    thread.join(10)
    assert not thread.is_alive()
    assert Counter(got) == {b"%d" % number: 1 for number in range(20)}
    with pytest.raises(ClientClosedError):
        consumer.poll()


@pytest.mark.waits("who finds nothing looks again after half a second")
def test_threads_that_poll_share_the_messages(namesrv, topic, lite):
    fill(namesrv, topic, 200)
    with lite(f"{topic}_g") as consumer:
        consumer.subscribe(topic)
        got = [[] for _ in range(4)]

        def work(mine):
            while sum(map(len, got)) < 200:
                for message in consumer.poll(5, timeout=0.5):
                    consumer.ack(message)
                    mine.append(message.body)

        threads = [threading.Thread(target=work, args=(mine,)) for mine in got]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert Counter(body for mine in got for body in mine) == {b"%d" % number: 1 for number in range(200)}
        consumer.commit()
        assert sum(consumer.committed(queue) for queue in consumer.assignment) == 200


def test_ctrl_c_in_a_poll_loses_nothing(namesrv, topic, lite, monkeypatch):
    asked, inner = threading.Event(), Polling.lend

    async def lend(polling, *arguments):
        asked.set()
        return await inner(polling, *arguments)

    monkeypatch.setattr(Polling, "lend", lend)
    with lite(f"{topic}_g", auto_commit_interval=0.2) as consumer:
        fill(namesrv, topic, 0, queues=1)
        consumer.subscribe(topic)
        consumer.wait_assigned(10)
        main = threading.main_thread().ident

        def strike():
            assert asked.wait(20)
            asked.clear()
            signal.pthread_kill(main, signal.SIGINT)

        for call in (lambda: consumer.poll(timeout=20), lambda: next(consumer), consumer.poll):
            thread = threading.Thread(target=strike)
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                call()
            thread.join()
        fill(namesrv, topic, 3, queues=1)
        assert [message.body for message in drain(consumer, 3)] == [b"0", b"1", b"2"]


def exits(topic, queues):
    raise SystemExit(3)


@pytest.mark.waits("routes are looked at every 0.2 s")
def test_PL10_a_function_that_exits_ends_nothing_and_one_that_hangs_keeps_nobody_waiting(namesrv, topic, lite, caplog):
    fill(namesrv, topic, 0, queues=1)
    told, over = threading.Event(), threading.Event()

    def hangs(name, queues):
        told.set()
        over.wait(30)

    try:
        with lite(f"{topic}_g", poll_name_server_interval=0.2) as consumer:
            consumer.subscribe(topic)
            consumer.on_queues_changed(topic, exits)
            consumer.wait_assigned(10)
            fill(namesrv, topic, 0, queues=2)
            end = time.monotonic() + 20
            while "given to on_queues_changed" not in caplog.text:
                assert time.monotonic() < end
                assert consumer.poll(timeout=0.1) == []
            consumer.on_queues_changed(topic, hangs)
            fill(namesrv, topic, 6, queues=3)
            assert told.wait(20)
            assert len(drain(consumer, 6)) == 6
            began = time.monotonic()
        assert time.monotonic() - began < 10
        assert not over.is_set()
    finally:
        over.set()


@pytest.mark.waits("a queue that is paused gives nothing for a while")
def test_PL9_PL10_single_queues(namesrv, topic, lite):
    fill(namesrv, topic, 20, queues=2)
    consumer = lite(f"{topic}_g")
    zero, one = consumer.fetch_message_queues(topic)
    consumer.assign([zero])
    told = threading.Event()
    consumer.on_queues_changed(topic, lambda _, queues: told.set())
    with pytest.raises(ConfigError, match="uses either subscribe or assign"):
        consumer.subscribe(topic)
    with pytest.raises(ConfigError, match="async"):
        consumer.on_queues_changed(topic, _told_later)
    with consumer:
        assert consumer.fetch_message_queues(topic) == (zero, one)
        assert consumer.assignment == (zero,)
        got = drain(consumer, 10)
        assert consumer.lag() == {zero: 0}
        assert (consumer.beginning_offset(one), consumer.end_offset(one)) == (0, 10)
        assert consumer.offset_for_timestamp(zero, got[0].store_timestamp) == 0
        consumer.seek_to_timestamp(zero, got[0].store_timestamp)
        assert len(drain(consumer, 10)) == 10
        consumer.seek_to_begin(zero)
        consumer.pause([zero])
        assert consumer.poll(timeout=0.2) == []
        consumer.resume([zero])
        assert len(drain(consumer, 10)) == 10
        consumer.seek_to_end(zero)
        assert consumer.poll(timeout=0.2) == []
        with pytest.raises(OffsetOutOfRangeError):
            consumer.seek(zero, 11)
        with pytest.raises(QueueNotAssignedError):
            consumer.seek(one, 1)
        with pytest.raises(ConfigError, match="ack needs a message"):
            consumer.ack("message")
    assert not told.is_set()
    with pytest.raises(ConfigError, match="not subscribed"):
        consumer.unsubscribe(topic)


async def _told_later(topic, queues):
    """Of no use here."""


def test_in_a_child_it_says_so_and_leaves_the_parent_alone(namesrv, topic, lite):
    fill(namesrv, topic, 5)
    with lite(f"{topic}_g") as consumer, PullConsumer(f"{topic}_p", namesrv=namesrv) as plain:
        consumer.subscribe(topic)
        queue = consumer.wait_assigned(10)[0]

        def refuse():
            for call in (
                consumer.poll,
                consumer.commit,
                lambda: consumer.position(queue),
                lambda: plain.pull(queue, 0),
            ):
                with pytest.raises(ClientClosedError, match="fork"):
                    call()
            consumer.close()
            plain.close()

        in_child(refuse)
        assert len(drain(consumer, 5)) == 5


def test_PL7_pull_consumer(namesrv, topic):
    fill(namesrv, topic, 10, queues=1)
    with MQClientInstance(namesrv=namesrv) as client, PullConsumer(f"{topic}_g", client=client) as consumer:
        (queue,) = consumer.fetch_message_queues(topic)
        found = consumer.pull(queue, 4, max_messages=3)
        assert (found.status, [message.body for message in found.messages]) == (PullStatus.FOUND, [b"4", b"5", b"6"])
        assert consumer.pull_block_if_not_found(queue, 9).next_begin_offset == 10
        assert consumer.pull(queue, 10, timeout=3).status is PullStatus.NO_NEW_MSG
        consumer.update_consume_offset(queue, 6)
        assert consumer.fetch_consume_offset(queue) == 6
        assert consumer.config.group == f"{topic}_g"
