"""The asyncio push consumer: listeners in the user's loop, in threads, cancelled, cut off, left alone."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections import Counter

import pytest

from rocketpy.aio import ConsumeFromWhere, ConsumeResult, Message, Producer, PushConsumer
from rocketpy.errors import ClientClosedError, ConfigError, RequestTimeoutError
from tests.aio.running import in_asyncio

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET

tenant = contextvars.ContextVar("tenant", default="nobody")


class Inbox:
    """Counts what arrives in a loop; `full` is set when there are `wanted`."""

    def __init__(self, wanted):
        self.wanted = wanted
        self.bodies = []
        self.full = asyncio.Event()

    def take(self, *messages):
        self.bodies += [message.body for message in messages]
        if len(self.bodies) >= self.wanted:
            self.full.set()

    async def __call__(self, message):
        self.take(message)


async def fill(namesrv, topic, count, *, queues=4, **properties):
    async with Producer("pg", namesrv=namesrv) as producer:
        await producer.create_topic(topic, queues=queues)
        await asyncio.gather(*(producer.send(Message(topic, b"%d" % n, **properties)) for n in range(count)))


def end_tasks(loop):
    """As `asyncio.run` does before it closes its loop."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


@pytest.mark.slow
@in_asyncio
async def test_every_message_arrives_once_in_the_loop_of_the_user(namesrv, topic):
    await fill(namesrv, topic, 0)
    inbox, loops = Inbox(300), set()

    async def listener(message):
        loops.add(asyncio.get_running_loop())
        await inbox(message)

    async with PushConsumer("once", namesrv=namesrv, consume_from_where=FIRST) as consumer:
        consumer.subscribe(topic, listener)
        assert len(await consumer.wait_assigned(10)) == 4
        assert len(consumer.assignment) == 4
        await fill(namesrv, topic, 300)
        await inbox.full.wait()
        assert consumer.status().group == "once"
        assert consumer.config.group == "once"
    assert Counter(inbox.bodies) == Counter(b"%d" % n for n in range(300))
    assert loops == {asyncio.get_running_loop()}
    assert consumer.statistics().consumed == 300


@in_asyncio
async def test_batches_and_tags(namesrv, topic):
    await fill(namesrv, topic, 30, queues=1, tags="yes")
    await fill(namesrv, topic, 30, queues=1, tags="no")
    inbox, sizes = Inbox(30), []

    async def listener(messages):
        sizes.append(len(messages))
        inbox.take(*messages)

    async with PushConsumer(
        "batches", namesrv=namesrv, consume_from_where=FIRST, consume_message_batch_max_size=16
    ) as consumer:
        consumer.subscribe(topic, listener, tags="yes")
        await inbox.full.wait()
    assert sorted(inbox.bodies) == sorted(b"%d" % n for n in range(30))
    assert max(sizes) == 16


@in_asyncio
async def test_plain_listeners_run_in_threads(namesrv, topic):
    await fill(namesrv, topic, 20)
    loop, full, threads = asyncio.get_running_loop(), asyncio.Event(), []

    def listener(message):
        threads.append(threading.current_thread())
        if len(threads) == 20:
            loop.call_soon_threadsafe(full.set)

    async with PushConsumer("plain", namesrv=namesrv, consume_from_where=FIRST) as consumer:
        consumer.subscribe(topic, listener)
        await full.wait()
    assert threading.current_thread() not in threads


@pytest.mark.slow
@in_asyncio
async def test_no_more_listeners_run_than_consume_thread_max(namesrv, topic):
    await fill(namesrv, topic, 30)
    inbox, running, most = Inbox(30), 0, 0
    together = asyncio.Barrier(3)  # passed by threes: fewer at once would wait for ever

    async def listener(message):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await together.wait()
        running -= 1
        await inbox(message)

    async with PushConsumer("bounded", namesrv=namesrv, consume_from_where=FIRST, consume_thread_max=3) as consumer:
        consumer.subscribe(topic, listener)
        await inbox.full.wait()
    assert most == 3


@pytest.mark.slow
@in_asyncio
async def test_calls_go_over_in_batches(namesrv, topic):
    await fill(namesrv, topic, 200)
    inbox, wake_ups = Inbox(200), []
    consumer = PushConsumer("batched", namesrv=namesrv, consume_from_where=FIRST)
    async with consumer:
        bridge_inbox = consumer._bridge.inbox
        drain = bridge_inbox._drain
        bridge_inbox._drain = lambda: (wake_ups.append(1), drain())
        consumer.subscribe(topic, inbox)
        await inbox.full.wait()
    assert len(wake_ups) < 50


@in_asyncio
async def test_every_call_runs_in_a_copy_of_the_context_that_entered(namesrv, topic):
    await fill(namesrv, topic, 20)
    inbox, seen, tasks = Inbox(20), [], set()

    async def listener(message):
        seen.append(tenant.get())
        tenant.set("set by one call")
        await asyncio.sleep(0)
        assert tenant.get() == "set by one call"
        tasks.add(asyncio.current_task())
        await inbox(message)

    tenant.set("of the one who entered")
    async with PushConsumer("context", namesrv=namesrv, consume_from_where=FIRST) as consumer:
        tenant.set("later")
        consumer.subscribe(topic, listener)
        await inbox.full.wait()
    assert set(seen) == {"of the one who entered"}
    assert None not in tasks


@in_asyncio
async def test_timeouts_work_inside_of_listeners(namesrv, topic):
    await fill(namesrv, topic, 3)
    inbox, timed_out = Inbox(3), []

    async def listener(message):
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            timed_out.append(message)
        await inbox(message)

    async with PushConsumer("timeouts", namesrv=namesrv, consume_from_where=FIRST) as consumer:
        consumer.subscribe(topic, listener)
        await inbox.full.wait()
    assert len(timed_out) == 3


@pytest.mark.slow
@pytest.mark.waits("a message that failed comes again after a second, from a broker in real time")
@pytest.mark.parametrize("how", ["retry", "raises", "cancelled", "exits", "generator-exit"])
def test_RT1_a_message_that_failed_comes_again(namesrv, topic, how, caplog):
    @in_asyncio
    async def main():
        await fill(namesrv, topic, 1)
        tries, done = [], asyncio.Event()

        async def listener(message):
            tries.append(message.reconsume_times)
            if message.reconsume_times:
                done.set()
                return None
            if how == "raises":
                raise ValueError("mine")
            if how == "cancelled":
                future = asyncio.get_running_loop().create_future()
                future.cancel()
                await future
            if how == "exits":
                raise SystemExit(3)
            if how == "generator-exit":
                raise GeneratorExit
            return ConsumeResult.RETRY

        async with PushConsumer(f"again-{how}", namesrv=namesrv, consume_from_where=FIRST) as consumer:
            consumer.subscribe(topic, listener)
            await done.wait()
        assert tries == [0, 1]

    with caplog.at_level(logging.CRITICAL):
        main()


@pytest.mark.waits("a listener takes too long, in a loop of asyncio's, which has no virtual clock")
def test_a_listener_that_takes_too_long_gets_its_message_again_and_does_not_block_the_others(namesrv, topic, caplog):
    @in_asyncio
    async def main():
        await fill(namesrv, topic, 1)
        tries, done = [], asyncio.Event()

        async def listener(message):
            tries.append(message.reconsume_times)
            if message.reconsume_times:
                done.set()
            else:
                await asyncio.Event().wait()

        consumer = PushConsumer(
            "too-long",
            namesrv=namesrv,
            consume_from_where=FIRST,
            consume_timeout=0.2,
            consume_thread_max=1,
            await_termination=0.2,
        )
        async with consumer:
            consumer.subscribe(topic, listener)
            await done.wait()
        assert tries == [0, 1]
        assert consumer.statistics().timed_out == 1

    with caplog.at_level(logging.CRITICAL):
        main()


@pytest.mark.waits("closing waits for a listener in a loop of asyncio's for as long as it may")
def test_listeners_get_await_termination_and_are_cancelled_then(namesrv, topic, caplog):
    @in_asyncio
    async def main():
        await fill(namesrv, topic, 2)
        inbox, ended, closing = Inbox(2), [], asyncio.Event()

        async def listener(message):
            await inbox(message)
            try:
                await (closing if message.body == b"0" else asyncio.Event()).wait()
                ended.append("returned")
            except asyncio.CancelledError:
                await asyncio.sleep(0)  # cleaning up may wait
                ended.append("cancelled")
                raise

        async with PushConsumer(
            "terminated", namesrv=namesrv, consume_from_where=FIRST, await_termination=0.5
        ) as consumer:
            consumer.subscribe(topic, listener)
            await inbox.full.wait()
            asyncio.get_running_loop().call_soon(closing.set)  # when the block has been left
        assert sorted(ended) == ["cancelled", "returned"]
        again = Inbox(1)
        async with PushConsumer("terminated", namesrv=namesrv) as consumer:
            consumer.subscribe(topic, again)
            await again.full.wait()
        assert again.bodies == [b"1"]  # cut off, hence neither acknowledged nor given back

    with caplog.at_level(logging.CRITICAL):
        main()


@pytest.mark.waits("closing waits for a listener in a loop of asyncio's for as long as it may")
def test_a_listener_that_refuses_to_be_cancelled_is_left_alone(namesrv, topic, caplog):
    @in_asyncio
    async def main():
        await fill(namesrv, topic, 1)
        entered, release = asyncio.Event(), asyncio.Event()

        async def stubborn(message):
            entered.set()
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        async with PushConsumer(
            "stubborn", namesrv=namesrv, consume_from_where=FIRST, await_termination=0.1
        ) as consumer:
            consumer.subscribe(topic, stubborn)
            await entered.wait()
        assert "1 listeners of consumer stubborn did not end" in caplog.text
        release.set()
        for _ in range(3):
            await asyncio.sleep(0)

    main()


@pytest.mark.slow
def test_a_task_that_is_cancelled_in_the_block_commits_and_leaves(namesrv, topic):
    @in_asyncio
    async def main():
        await fill(namesrv, topic, 10)
        inbox = Inbox(10)

        async def use():
            async with PushConsumer("cancelled", namesrv=namesrv, consume_from_where=FIRST) as consumer:
                consumer.subscribe(topic, inbox)
                await asyncio.Event().wait()

        task = asyncio.create_task(use())
        await inbox.full.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        more = Inbox(1)
        await fill(namesrv, topic, 1)
        async with PushConsumer("cancelled", namesrv=namesrv) as consumer:
            consumer.subscribe(topic, more)
            await more.full.wait()
        assert len(more.bodies) == 1

    main()


@in_asyncio
async def test_PC1_what_cannot_work_is_refused(namesrv, topic):
    consumer = PushConsumer("checks", namesrv=namesrv)
    for bad in (("bad name", print), ("T", None), ("T", "listener")):
        with pytest.raises(ConfigError):
            consumer.subscribe(*bad)
    with pytest.raises(ConfigError):
        consumer.unsubscribe("NotSubscribed")
    with pytest.raises(ClientClosedError, match="async with"):
        await consumer.wait_assigned(1)
    assert consumer.assignment == ()
    async with consumer:
        with pytest.raises(RequestTimeoutError):
            await consumer.wait_assigned(0)
        caught = []

        def use():
            try:
                consumer.subscribe(topic, print)
            except ConfigError as error:
                caught.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join(10)
        assert len(caught) == 1
    with pytest.raises(ClientClosedError):
        await consumer.__aenter__()


def test_a_loop_that_ends_without_leaving_closes_the_consumer_in_the_background(namesrv, topic, caplog):
    """The worker tasks are ended by the runner; the portal finds the loop closed when the next message comes."""
    kept = []

    async def forget():
        await fill(namesrv, topic, 1)
        inbox = Inbox(1)
        consumer = PushConsumer("forgotten", namesrv=namesrv, consume_from_where=FIRST)
        kept.append(consumer)
        consumer.subscribe(topic, inbox)
        await consumer.__aenter__()
        await inbox.full.wait()

    asyncio.run(forget(), debug=True)
    opened = kept[0]._bridge.opened
    assert not opened.ended.is_set()
    asyncio.run(fill(namesrv, topic, 1), debug=True)
    assert opened.ended.wait(20)
    assert "the event loop of consumer forgotten was closed" in caplog.text


def test_a_loop_that_was_closed_with_a_wake_up_on_its_way_closes_the_consumer_all_the_same(namesrv, topic):
    async def enter():
        await fill(namesrv, topic, 1)
        inbox = Inbox(1)
        consumer = PushConsumer("overtaken", namesrv=namesrv, consume_from_where=FIRST)
        consumer.subscribe(topic, inbox)
        await consumer.__aenter__()
        await inbox.full.wait()
        return consumer

    loop = asyncio.new_event_loop()
    consumer = loop.run_until_complete(enter())
    end_tasks(loop)
    opened, inbox, delivered = consumer._bridge.opened, consumer._bridge.inbox, threading.Event()
    deliver = inbox.deliver
    inbox.deliver = lambda job: (deliver(job), delivered.set())[0]
    asyncio.run(fill(namesrv, topic, 1), debug=True)
    assert delivered.wait(20)
    loop.close()
    asyncio.run(fill(namesrv, topic, 1), debug=True)
    assert opened.ended.wait(20)


@pytest.mark.waits("closing waits for a loop that does not run for as long as it may")
def test_a_loop_that_was_stopped_does_not_keep_a_consumer_from_closing(namesrv, topic):
    loop = asyncio.new_event_loop()
    entered = threading.Event()

    async def hang(message):
        entered.set()
        loop.stop()
        await asyncio.Event().wait()

    async def enter():
        consumer = PushConsumer("stopped", namesrv=namesrv, consume_from_where=FIRST)
        consumer.subscribe(topic, hang)
        return await consumer.__aenter__()

    consumer = loop.run_until_complete(enter())
    opened = consumer._bridge.opened
    filling = loop.create_task(fill(namesrv, topic, 1))  # only now: the stop is for the line below
    loop.run_forever()
    assert entered.is_set()
    consumer._bridge.portal.post(opened.leave)
    assert opened.ended.wait(20)
    filling.cancel()
    end_tasks(loop)
    loop.close()


@in_asyncio
async def test_threat_L7_listeners_of_one_topic_that_hang_do_not_starve_another(namesrv, topic):
    other = f"{topic}_other"
    await fill(namesrv, topic, 20)
    await fill(namesrv, other, 0)
    inbox, hung, hold = Inbox(30), asyncio.Semaphore(0), asyncio.Event()

    async def hanging(message):
        hung.release()
        await hold.wait()

    settings = {"consume_from_where": FIRST, "consume_thread_max": 4}
    async with PushConsumer("starving", namesrv=namesrv, **settings) as consumer:
        consumer.subscribe(other, inbox)
        consumer.subscribe(topic, hanging)
        for _ in range(3):
            await hung.acquire()
        await fill(namesrv, other, 30)
        await inbox.full.wait()
        assert hung.locked()
        hold.set()
