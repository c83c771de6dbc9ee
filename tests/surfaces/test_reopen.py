"""Forks of a server that made its clients before it had workers, and forks inside of listeners."""

from __future__ import annotations

import os
import queue
import sys

import pytest

import rocketpy.sync
from rocketpy import (
    ClientClosedError,
    ConsumeFromWhere,
    LocalTransactionState,
    Message,
    MessageModel,
    ReplyTimeoutError,
)
from tests.forking import in_child
from tests.surfaces.surface import call, entered

if not hasattr(os, "fork"):
    pytest.skip("there are no forks here", allow_module_level=True)

COMMIT = LocalTransactionState.COMMIT
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


async def in_reopened(thing, use):
    """Do something with what is reopened."""
    assert thing.reopen() is thing
    async with entered(thing):
        return await use()


@pytest.mark.slow
def test_complaint_12_a_producer_goes_on_in_each_worker(surface, cluster, namesrv, topic):
    """As with gunicorn's preload_app: made before the workers, and not even used."""
    producer = surface.module.Producer("web", namesrv=namesrv)
    cluster.create_topic(topic, queues=1)

    def work(number):
        async def main():
            return await in_reopened(producer, lambda: send(number))

        async def send(number):
            return (await call(producer.send(Message(topic, b"%d" % number)))).status.name

        return surface.run(main)

    assert [in_child(lambda number=number: work(number)) for number in range(3)] == ["SEND_OK"] * 3
    assert sorted(message.body for message in cluster.messages(topic)) == [b"0", b"1", b"2"]


def test_complaint_12_what_was_open_is_reopened_and_the_parent_goes_on(cluster, namesrv, topic):
    cluster.create_topic(topic, queues=1)
    with rocketpy.sync.Producer("web", namesrv=namesrv) as producer:
        producer.send(Message(topic, b"parent"))
        future = producer.send_soon(Message(topic, b"parent"))

        def work():
            with pytest.raises(ClientClosedError, match=r"or reopen\(\) this one"):
                producer.send(Message(topic, b"child"))
            producer.reopen().start()
            producer.send(Message(topic, b"child"))
            status = producer.send_soon(Message(topic, b"child")).result(10).status.name
            producer.close()
            return status

        assert in_child(work) == "SEND_OK"
        assert future.result(10)
        producer.send(Message(topic, b"parent"))
    bodies = sorted(message.body for message in cluster.messages(topic))
    assert bodies == [b"child", b"child", b"parent", b"parent", b"parent"]


def test_complaint_12_a_producer_of_transactions_that_lingers_goes_on_in_a_worker(surface, cluster, namesrv, topic):
    """Checker, executor and linger are those that it was made with. Half messages never linger."""
    cluster.create_topic(topic, queues=1)
    producer = surface.module.TransactionProducer(
        "shop", namesrv=namesrv, checker=lambda message: COMMIT, executor=lambda message, arg: COMMIT, linger=0.005
    )

    def work():
        async def sell():
            sale = await call(producer.send_in_transaction(Message(topic, b"sale")))
            return sale.local_state.name, (await call(producer.send(Message(topic, b"plain")))).status.name

        return " ".join(surface.run(lambda: in_reopened(producer, sell)))

    assert in_child(work) == "COMMIT SEND_OK"
    assert sorted(message.body for message in cluster.messages(topic)) == [b"plain", b"sale"]


@pytest.mark.waits("until a request that nobody replies to has timed out")
def test_complaint_12_a_request_under_way_stays_with_the_parent(cluster, namesrv, topic):
    cluster.create_topic(topic, queues=1)
    with rocketpy.sync.Producer("web", namesrv=namesrv, linger=0.005) as producer:
        future = producer.request_soon(Message(topic, b"parent"), timeout=0.5)
        lingering = producer.send_soon(Message(topic, b"parent"))

        def work():
            with pytest.raises(ClientClosedError, match="only the parent process learns"):
                future.result(10)
            with producer.reopen():
                with pytest.raises(ReplyTimeoutError):
                    producer.request_soon(Message(topic, b"child"), timeout=0.05).result(10)
                return producer.send_soon(Message(topic, b"child")).result(10).status.name

        assert in_child(work) == "SEND_OK"
        assert lingering.result(10)
        assert isinstance(future.exception(10), ReplyTimeoutError)
    assert sorted(message.body for message in cluster.messages(topic)) == [b"child"] * 2 + [b"parent"] * 2


def test_complaint_12_a_consumer_with_a_client_goes_on_with_what_it_subscribes(surface, cluster, namesrv, topic):
    cluster.create_topic(topic, queues=1)
    cluster.send(Message(topic, b"x"))
    got = queue.Queue()
    client = surface.module.MQClientInstance(namesrv=namesrv)
    consumer = surface.module.PushConsumer(f"again-{surface.name}", client=client, consume_from_where=FIRST)
    consumer.subscribe(topic, lambda message: got.put(message.body))

    def work():
        async def consume():
            assert len(await call(consumer.wait_assigned(10))) == 1
            while got.empty():
                await call(consumer.wait_assigned(10))
            return got.get(timeout=10)

        async def main():
            return await in_reopened(client, lambda: in_reopened(consumer, consume))

        return surface.run(main)

    assert in_child(work) == "b'x'"


@pytest.mark.slow
def test_complaint_12_a_consumer_in_order_goes_on_in_each_worker(surface, cluster, namesrv, topic):
    """One worker after the other has the lock of the queue, and gives it up when it closes."""
    cluster.create_topic(topic, queues=1)
    group = f"ordered-again-{surface.name}"
    consumer = surface.module.PushConsumer(group, namesrv=namesrv, consume_from_where=FIRST, orderly=True)
    got = queue.Queue()
    consumer.subscribe(topic, lambda message: got.put(message.body))

    def work():
        async def consume():
            found = []
            while len(found) < 3:
                await call(consumer.wait_assigned(10))
                while not got.empty():
                    found.append(got.get())
            return found, sum(each.topic == topic for each in consumer.status().locks)

        return surface.run(lambda: in_reopened(consumer, consume))

    for first in (0, 3):
        for number in range(first, first + 3):
            cluster.send(Message(topic, b"%d" % number))
        assert in_child(work) == str(([b"%d" % number for number in range(first, first + 3)], 1))
        cluster.wait_consumed(group, topic)


def test_complaint_12_a_consumer_that_broadcasts_goes_on_where_its_file_is(surface, cluster, namesrv, topic, tmp_path):
    cluster.create_topic(topic, queues=1)
    settings = {"message_model": MessageModel.BROADCASTING, "local_offset_store_dir": tmp_path}
    consumer = surface.module.PushConsumer(
        f"all-again-{surface.name}", namesrv=namesrv, consume_from_where=FIRST, instance_name="web", **settings
    )
    got = queue.Queue()
    consumer.subscribe(topic, lambda message: got.put(message.body))

    def work():
        async def consume():
            while got.empty():
                await call(consumer.wait_assigned(10))
            return got.get()

        return surface.run(lambda: in_reopened(consumer, consume)), got.qsize()

    for body in (b"one", b"two"):
        cluster.send(Message(topic, body))
        assert in_child(work) == str((body, 0))
    assert len(list(tmp_path.rglob("offsets.json"))) == 1


def test_complaint_12_consumers_that_pull_go_on_with_what_they_want(surface, cluster, namesrv, topic):
    cluster.create_topic(topic, queues=1)
    cluster.send(Message(topic, b"x"))
    settings = {"namesrv": namesrv, "consume_from_where": FIRST}
    subscribed = surface.module.LitePullConsumer(f"again-{surface.name}", **settings)
    subscribed.subscribe(topic)
    assigned = surface.module.LitePullConsumer(f"again-too-{surface.name}", **settings)
    puller = surface.module.PullConsumer("again", namesrv=namesrv)
    (only,) = surface.run(lambda: call(puller.fetch_message_queues(topic)))
    assigned.assign([only])

    def work():
        async def polled(consumer):
            return [message.body for message in await in_reopened(consumer, lambda: call(consumer.poll(timeout=10)))]

        async def main():
            found = await in_reopened(puller, lambda: call(puller.pull(only, 0)))
            return await polled(subscribed) + await polled(assigned) + [message.body for message in found.messages]

        return surface.run(main)

    assert in_child(work) == "[b'x', b'x', b'x']"


def test_an_admin_is_reopened_and_so_is_one_that_was_handed_out(surface, cluster, namesrv, topic):
    cluster.create_topic(topic, queues=1)
    admin, producer = surface.module.Admin(namesrv=namesrv), surface.module.Producer("again", namesrv=namesrv)
    handed_out = producer.admin()

    def work():
        async def main():
            found = await in_reopened(admin, lambda: call(admin.topics.list()))
            producer.reopen()
            async with entered(producer):
                return [topic in found, topic in await in_reopened(handed_out, lambda: call(handed_out.topics.list()))]

        return surface.run(main)

    assert in_child(work) == "[True, True]"


def test_complaint_12_reopen_is_for_children(surface, namesrv):
    async def main():
        for kind in ("Producer", "PushConsumer", "LitePullConsumer", "PullConsumer", "Admin", "MQClientInstance"):
            group = () if kind in ("Admin", "MQClientInstance") else ("g",)
            made = getattr(surface.module, kind)(*group, namesrv=namesrv)
            with pytest.raises(ClientClosedError, match=r"reopen\(\) works only in the child of a fork"):
                made.reopen()
            async with entered(made):
                with pytest.raises(ClientClosedError, match=r"reopen\(\) works only in the child of a fork"):
                    made.reopen()

    surface.run(main)


# --- forks inside of a listener -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize(("ends", "status"), [(lambda: None, 0), (lambda: sys.exit(7), 7), (lambda: 1 // 0, 1)])
def test_complaint_12_a_child_of_a_listener_ends_where_the_listener_does(
    surface, cluster, namesrv, topic, kind, ends, status, tmp_path
):
    """It never makes a call that waits behind its own, nor runs what comes at the end of its parent."""
    cluster.create_topic(topic, queues=1)
    for number in range(5):
        cluster.send(Message(topic, b"%d" % number))
    parent = os.getpid()
    calls = tmp_path / "calls"
    exits = queue.Queue()

    def listen(message):
        child = os.fork()
        with calls.open("a") as file:
            file.write(f"{os.getpid() == parent} {message.body.decode()}\n")
        if child == 0:
            return ends()
        exits.put(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return None

    async def awaited(message):
        return listen(message)

    async def main():
        group = f"forks-{surface.name}-{kind}-{status}"
        consumer = surface.module.PushConsumer(group, namesrv=namesrv, consume_from_where=FIRST, consume_thread_max=1)
        consumer.subscribe(topic, listen if kind == "plain" else awaited)
        async with entered(consumer):
            while exits.qsize() < 5:
                await call(consumer.wait_assigned(10))

    surface.run(main)
    assert [exits.get() for _ in range(5)] == [status] * 5
    lines = calls.read_text().splitlines()
    assert sorted(lines) == sorted(f"{mine} {number}" for mine in (True, False) for number in range(5))
