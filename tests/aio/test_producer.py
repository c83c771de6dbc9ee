"""The asyncio producer: sending, failing, being cancelled, belonging to a loop."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading

import pytest
import trio

from rocketpy.aio import Message, MQClientInstance, Producer, SendStatus
from rocketpy.aio.direct import DirectSends
from rocketpy.aio.lifetime import Lifetime
from rocketpy.errors import (
    ClientClosedError,
    ConfigError,
    NameServerUnreachableError,
    RequestTimeoutError,
    SendError,
    TopicNotFoundError,
)
from rocketpy.portal import portal
from tests.aio.running import in_asyncio, run
from tests.garbage import garbage
from tests.producer.brokers import SendBroker


def in_flight(producer):
    """Requests under way on all connections, asked where they live."""

    async def count():
        pool = producer._inner.client.pool
        connections = [pool.nowait(address) for address in pool.addresses()]
        return sum(each.statistics().in_flight for each in connections if each is not None)

    return producer._bridge.portal.call(count)


async def until_in_flight(producer, wanted):
    while in_flight(producer) < wanted:  # noqa: ASYNC110 - nobody tells when a request has been written
        await asyncio.sleep(0)


@in_asyncio
async def test_S1_an_awaited_send_returns_where_the_message_went(namesrv, topic):
    async with Producer("pg", namesrv=namesrv) as producer:
        first = await producer.send(Message(topic, b"one", tags="a"))
        assert first.status is SendStatus.SEND_OK
        again = await producer.send(Message(topic, b"two"), queue=first.queue)
        assert (again.queue, again.queue_offset) == (first.queue, first.queue_offset + 1)
        chosen = await producer.send(Message(topic, b"x"), selector=lambda queues, message, arg: queues[arg], arg=1)
        assert chosen.queue.queue_id == 1


@in_asyncio
async def test_S3_oneway_batches_and_topics(namesrv, topic):
    async with Producer("pg", namesrv=namesrv) as producer:
        await producer.create_topic(topic, queues=1)
        assert len(await producer.queues(topic)) == 1
        await producer.send_oneway(Message(topic, b"unanswered"))
        result = await producer.send_batch([Message(topic, b"a"), Message(topic, b"b")])
        assert len(result.message_id.split(",")) == 2
        acknowledged = 2
        while (await producer.send(Message(topic, b"c"))).queue_offset != acknowledged + 1:
            acknowledged += 1  # it may take another connection than what is answered, and be overtaken there


@pytest.mark.slow
@in_asyncio
async def test_many_tasks_send_at_once_and_every_message_has_a_place(namesrv, topic):
    async with Producer("pg", namesrv=namesrv) as producer:
        await producer.create_topic(topic, queues=8)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(producer.send(Message(topic, b"%d" % n))) for n in range(500)]
        places = {(task.result().queue, task.result().queue_offset) for task in tasks}
        assert len(places) == 500


@in_asyncio
async def test_sends_of_one_task_keep_their_order(namesrv, topic):
    async with Producer("pg", namesrv=namesrv) as producer:
        await producer.create_topic(topic, queues=1)
        results = await asyncio.gather(*(producer.send(Message(topic, b"%d" % n)) for n in range(100)))
        assert [result.queue_offset for result in results] == list(range(100))


def test_S6_a_send_is_tried_as_often_as_a_send_and_not_as_a_send_soon(fakes):
    @in_asyncio
    async def main(settings):
        async with Producer(
            "pg", retry_times_when_send_failed=2, retry_times_when_send_async_failed=0, **settings
        ) as producer:
            assert (await producer.send(Message("T", b"x"))).status is SendStatus.SEND_OK
            with pytest.raises(SendError) as caught:
                await producer.send(Message("T", b"x"))
            assert len(caught.value.attempts) == 3

    broker = SendBroker(script=[14, 14, 0, 14, 14, 14])
    with fakes(broker) as settings:
        main(settings)
    assert len(broker.taken) == 6


@in_asyncio
async def test_S7_what_a_selector_raises_comes_out(namesrv, topic):
    def broken(queues, message, arg):
        raise KeyError("mine")

    async with Producer("pg", namesrv=namesrv) as producer:
        await producer.create_topic(topic)
        with pytest.raises(KeyError, match="mine"):
            await producer.send(Message(topic, b"x"), selector=broken)
        with pytest.raises(ConfigError):
            await producer.send(Message(topic, b"x"), queue="no queue")
        with pytest.raises(TopicNotFoundError):
            await producer.queues("NobodyMadeThis")
        assert (await producer.send(Message(topic, b"x"))).status is SendStatus.SEND_OK


@in_asyncio
async def test_errors_are_those_of_the_trio_surface(namesrv):
    async with Producer("pg", namesrv="127.0.0.1:1", send_timeout=2.0) as producer:
        with pytest.raises(NameServerUnreachableError, match=r"127\.0\.0\.1:1"):
            await producer.send(Message("T", b"x"))
    for bad in (None, "text", Message("bad name", b"x")):
        async with Producer("pg", namesrv=namesrv) as producer:
            with pytest.raises(ConfigError):
                await producer.send(bad)


@pytest.mark.slow
def test_a_send_leaves_no_work_for_the_garbage_collector(fakes):
    async def send_some(settings, found):
        async with Producer("pg", **settings) as producer:
            await producer.send(Message("T", b"connects"))
            before = found("PendingSend", "_Waiter", "_Answered")
            for _ in range(50):
                await producer.send(Message("T", b"x"))
            return found("PendingSend", "_Waiter", "_Answered") - before

    with fakes() as settings, garbage() as found:
        assert asyncio.run(send_some(settings, found)) == 0


# --- cancellation ---------------------------------------------------------------------------------------


def test_a_cancelled_send_leaves_nothing_behind(fakes):
    @in_asyncio
    async def main(settings):
        async with Producer("pg", **settings) as producer:
            await producer.send(Message("T", b"connects"))
            task = asyncio.create_task(producer.send(Message("T", b"unanswered"), timeout=30))
            await until_in_flight(producer, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert in_flight(producer) == 0
            assert producer._inner.outside.sends.total == 0
            assert (await producer.send(Message("T", b"after"))).status is SendStatus.SEND_OK

    broker = SendBroker(script=[0, "silence"])
    with fakes(broker) as settings:
        main(settings)
    assert len(broker.taken) == 3


def test_a_cancelled_send_that_has_no_route_yet_leaves_nothing_behind(hole):
    @in_asyncio
    async def main():
        async with Producer("pg", namesrv=hole.address, send_timeout=600, request_timeout=600) as producer:
            task = asyncio.create_task(producer.send(Message("T", b"x")))
            await asyncio.sleep(0)  # it hands its send over,
            await asyncio.to_thread(portal().call, trio.lowlevel.checkpoint)  # and the portal has taken it
            assert producer._inner.outside.sends.total == 1
            task.cancel()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert producer._inner.outside.sends.total == 0

    main()


@pytest.mark.waits("timeouts, in a loop of asyncio's, which has no virtual clock")
def test_timeouts_of_asyncio_work(fakes):
    @in_asyncio
    async def main(settings):
        async with Producer("pg", send_timeout=600, **settings) as producer:
            await producer.send(Message("T", b"connects"))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await producer.send(Message("T", b"x"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.send(Message("T", b"x")), 0.05)
            with pytest.raises(RequestTimeoutError):
                await producer.send(Message("T", b"x"), timeout=0.05)
            assert asyncio.current_task().cancelling() == 0

    with fakes(SendBroker(script=[0, "silence", "silence", "silence"])) as settings:
        main(settings)


def test_a_task_group_that_fails_cancels_its_sends(fakes):
    @in_asyncio
    async def main(settings):
        async with Producer("pg", send_timeout=600, **settings) as producer:
            await producer.send(Message("T", b"connects"))
            with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012
                async with asyncio.TaskGroup() as group:
                    for _ in range(5):
                        group.create_task(producer.send(Message("T", b"x")))
                    await until_in_flight(producer, 5)
                    raise ValueError("the group fails")
            assert [type(error) for error in caught.value.exceptions] == [ValueError]
            assert in_flight(producer) == 0

    with fakes(SendBroker(script=[0, *["silence"] * 5])) as settings:
        main(settings)


def test_a_second_cancel_changes_nothing(fakes):
    @in_asyncio
    async def main(settings):
        async with Producer("pg", send_timeout=600, **settings) as producer:
            await producer.send(Message("T", b"connects"))
            task = asyncio.create_task(producer.send(Message("T", b"x")))
            await until_in_flight(producer, 1)
            task.cancel()
            await asyncio.sleep(0)  # the first one has arrived, and waits for the end
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert in_flight(producer) == 0
            assert producer._inner.outside.sends.total == 0

    with fakes(SendBroker(script=[0, "silence"])) as settings:
        main(settings)


@pytest.mark.waits("a send that nobody can cancel any more ends by its timeout")
def test_a_cancellation_stays_one_when_the_portal_has_ended(fakes, monkeypatch):
    @in_asyncio
    async def main(settings):
        async with Producer("pg", send_timeout=0.5, **settings) as producer:
            await producer.send(Message("T", b"connects"))
            task = asyncio.create_task(producer.send(Message("T", b"x")))
            await until_in_flight(producer, 1)

            def gone(*args):
                raise ClientClosedError("the background thread has ended")

            with monkeypatch.context() as patch:
                patch.setattr(producer._bridge.portal, "post", gone)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

    with fakes(SendBroker(script=[0, "silence"])) as settings:
        main(settings)


# --- closing --------------------------------------------------------------------------------------------


@in_asyncio
async def test_closing_waits_for_what_is_under_way(namesrv, topic):
    async with Producer("pg", namesrv=namesrv) as producer:
        await producer.send(Message(topic, b"x"))
        tasks = [asyncio.create_task(producer.send(Message(topic, b"x"))) for _ in range(300)]
        await asyncio.sleep(0)
    results = await asyncio.gather(*tasks)
    assert all(result.status is SendStatus.SEND_OK for result in results)


@pytest.mark.slow
@pytest.mark.waits("a name server in real time does not answer")
def test_closing_says_what_it_waits_for(monkeypatch, caplog):
    monkeypatch.setattr("rocketpy.aio.producer.PATIENCE", 0.0)

    async def main():
        async with Producer("pg", namesrv=f"127.0.0.1:{hole.getsockname()[1]}", send_timeout=2.0) as producer:
            sending = asyncio.create_task(producer.send(Message("T", b"x")))
            await until_in_flight(producer, 1)
        with pytest.raises(NameServerUnreachableError):
            await sending

    with socket.create_server(("127.0.0.1", 0)) as hole:
        run(main)
    assert "closing the producer of group pg: waiting for 1 message that is not acknowledged" in caplog.text


@in_asyncio
async def test_closing_waits_for_connections_that_are_being_made(namesrv, topic, monkeypatch):
    connect, close, gate, made = DirectSends._connect, Lifetime._close, asyncio.Event(), []

    async def slow(self, *args):
        made.append("begun")
        await gate.wait()
        await connect(self, *args)
        made.append("ended")

    async def then_go_on(self, error):
        await close(self, error)
        gate.set()

    monkeypatch.setattr(DirectSends, "_connect", slow)
    monkeypatch.setattr(Lifetime, "_close", then_go_on)
    async with Producer("pg", namesrv=namesrv) as producer:
        while not made:
            await producer.send(Message(topic, b"x"))
    assert made.count("begun") == made.count("ended")


def test_a_cancelled_task_leaves_in_order_and_says_goodbye(fakes):
    @in_asyncio
    async def main(settings):
        entered = asyncio.get_running_loop().create_future()

        async def use():
            async with Producer("pg", send_timeout=600, **settings) as producer:
                await producer.send(Message("T", b"connects"))
                entered.set_result(producer)
                await producer.send(Message("T", b"x"))

        task = asyncio.create_task(use())
        await until_in_flight(await entered, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    broker = SendBroker(script=[0, "silence"])
    with fakes(broker) as settings:
        main(settings)
        assert [left.producer_group for left in broker.left] == ["pg"]


def test_being_cancelled_while_closing_gives_up_what_is_under_way(fakes):
    @in_asyncio
    async def main(settings):
        sends, closing = [], asyncio.get_running_loop().create_future()

        async def use():
            async with Producer("pg", send_timeout=600, **settings) as producer:
                await producer.send(Message("T", b"connects"))
                sends.append(asyncio.create_task(producer.send(Message("T", b"x"))))
                await until_in_flight(producer, 1)
                closing.set_result(producer)

        task = asyncio.create_task(use())
        producer = await closing
        while producer._inner._lifecycle.is_open:  # noqa: ASYNC110 - nobody tells when closing has begun
            await asyncio.sleep(0)
        assert not task.done()  # it waits for the send
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(sends) == 1
        with pytest.raises(Exception, match=r"closed|given up"):
            await sends[0]

    broker = SendBroker(script=[0, "silence"])
    with fakes(broker) as settings:
        main(settings)
        assert [left.producer_group for left in broker.left] == ["pg"]


@in_asyncio
async def test_a_start_that_is_cancelled_may_be_tried_again(namesrv, topic):
    producer = Producer("pg", namesrv=namesrv)
    for turns in range(4):
        task = asyncio.create_task(producer.__aenter__())
        for _ in range(turns):
            await asyncio.sleep(0)
        if not task.cancel():
            break
        with pytest.raises(asyncio.CancelledError):
            await task
        assert producer._bridge.opened is None
        if producer._inner._lifecycle.state.value == "closed":
            producer = Producer("pg", namesrv=namesrv)  # it was entered already when the cancellation came
    else:
        await producer.__aenter__()
    assert (await producer.send(Message(topic, b"x"))).status is SendStatus.SEND_OK
    await producer.__aexit__(None, None, None)


@in_asyncio
async def test_a_start_that_is_cancelled_late_leaves_nothing_behind(namesrv):
    """The cancellation comes when the portal has entered it, and before the loop has heard of that."""
    producer = Producer("pg", namesrv=namesrv)
    task = asyncio.create_task(producer.__aenter__())
    while not producer._inner._lifecycle.is_open:  # noqa: ASYNC110
        await asyncio.sleep(0)
    if task.cancel():
        with pytest.raises(asyncio.CancelledError):
            await task
        assert producer._inner._lifecycle.state.value == "closed"
    else:
        await producer.__aexit__(None, None, None)


@in_asyncio
async def test_the_error_of_the_block_comes_out_as_it_is(namesrv):
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:
        async with Producer("pg", namesrv=namesrv):
            raise error
    assert caught.value is error


@in_asyncio
async def test_LC2_a_producer_that_is_not_open_says_what_to_do(namesrv, topic):
    producer = Producer("pg", namesrv=namesrv)
    with pytest.raises(ClientClosedError, match="async with"):
        await producer.send(Message(topic, b"x"))
    async with producer:
        with pytest.raises(ClientClosedError, match="already"):
            await producer.__aenter__()
        await producer.send(Message(topic, b"x"))
    for use in (producer.send, producer.send_oneway):
        with pytest.raises(ClientClosedError, match="make a new one"):
            await use(Message(topic, b"x"))


@in_asyncio
async def test_LC2_two_producers_share_a_client(namesrv, topic):
    async with MQClientInstance(namesrv=namesrv) as client:
        async with Producer("g1", client=client) as one, Producer("g2", client=client) as two:
            await one.send(Message(topic, b"x"))
            await two.send(Message(topic, b"x"))
        assert client.is_open
        assert client.client_id
        assert client.config.namesrv
    assert not client.is_open


# --- loops and threads ----------------------------------------------------------------------------------


@in_asyncio
async def test_another_thread_is_told_what_to_do(namesrv, topic):
    async with Producer("pg", namesrv=namesrv) as producer:
        caught = []

        def use():
            try:
                asyncio.run(producer.send(Message(topic, b"x")))
            except ConfigError as error:
                caught.append(str(error))

        thread = threading.Thread(target=use)
        thread.start()
        thread.join(20)
        assert "run_coroutine_threadsafe" in caught[0]


def test_another_loop_is_told_what_to_do(namesrv, topic):
    producer = Producer("pg", namesrv=namesrv)
    with asyncio.Runner(debug=True) as first, asyncio.Runner(debug=True) as second:
        first.run(producer.__aenter__())
        with pytest.raises(ConfigError, match="make one in each loop"):
            second.run(producer.send(Message(topic, b"x")))
        with pytest.raises(ConfigError, match="make one in each loop"):
            second.run(producer.__aexit__(None, None, None))
        with pytest.raises(ConfigError, match="make one in each loop"):
            second.run(producer.__aenter__())
        # The loop may rest between the calls.
        assert first.run(producer.send(Message(topic, b"x"))).status is SendStatus.SEND_OK
        first.run(producer.__aexit__(None, None, None))


@in_asyncio
async def test_a_shared_client_that_nobody_else_keeps_lives_as_long_as_its_producer(namesrv, topic):
    async def make():
        client = await MQClientInstance(namesrv=namesrv).__aenter__()
        return client._bridge.opened, await Producer("pg", client=client).__aenter__()

    opened, producer = await make()
    gc.collect()
    assert (await producer.send(Message(topic, b"x"))).status is SendStatus.SEND_OK
    assert not opened.ended.is_set()
    await producer.__aexit__(None, None, None)
    await producer._needs.__aexit__(None, None, None)


def test_a_producer_that_was_forgotten_says_so_and_is_closed(namesrv):
    async def forget():
        producer = Producer("pg", namesrv=namesrv)
        await producer.__aenter__()
        return producer._bridge.opened

    async def main():
        with pytest.warns(ResourceWarning, match="producer pg was not left"):
            return await forget()

    opened = run(main)
    assert opened.ended.wait(10)
