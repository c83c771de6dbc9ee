"""`send_many` on every surface, against a real broker over TCP."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import textwrap
import threading
from functools import partial

import pytest
import trio

from rocketpy import ConfigError, Message, SendManyError, SendManyResult, SendStatus
from rocketpy.portal import portal
from rocketpy.producer.frames_in_flight import FramesInFlight
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim import BlockingLocalCluster
from tests.surfaces.surface import SURFACES, call, entered

ASYNC = ["trio", "asyncio"]


@pytest.fixture
def faulty():
    """A cluster whose broker misbehaves as told; nobody else's."""
    with BlockingLocalCluster() as running:
        yield running


def test_all_messages_arrive_and_those_of_a_sharding_key_in_order(surface, cluster, namesrv, topic):
    def messages():
        for number in range(3000):
            key = f"k{number % 7}" if number % 2 else None
            yield Message(topic, b"%d" % number, keys=[str(number)], sharding_key=key)

    async def main():
        async with entered(surface.module.Producer("pg", namesrv=namesrv)) as producer:
            await call(producer.create_topic(topic, queues=4))
            result = await call(producer.send_many(messages(), batch_size=100))
            assert (result.messages, result.failed) == (3000, 0)
            assert result.bytes == sum(len(str(number)) for number in range(3000))
            assert result.frames < 100
            one = await call(producer.send(Message(topic, b"one", sharding_key="k1")))
            return one.queue.queue_id

    queue_of_k1 = surface.run(main)
    stored = sorted(cluster.messages(topic), key=lambda each: (each.queue_id, each.queue_offset))
    assert sorted(int(each.body) for each in stored if each.body != b"one") == list(range(3000))
    for key in {each.sharding_key for each in stored} - {None}:
        mine = [each for each in stored if each.sharding_key == key and each.body != b"one"]
        assert len({each.queue_id for each in mine}) == 1
        assert [int(each.body) for each in mine] == sorted(int(each.body) for each in mine)
    assert {each.queue_id for each in stored if each.sharding_key == "k1"} == {queue_of_k1}


def test_a_frame_that_fails_is_named_and_on_failure_is_called_by_whoever_sends(surface, faulty):
    threads = []
    messages = [Message("Orders", b"x", keys=[f"k{number}"]) for number in range(50)]

    async def main():
        settings = {"namesrv": faulty.name_server_addresses, "retry_times_when_send_failed": 0}
        async with entered(surface.module.Producer("pg", **settings)) as producer:
            await call(producer.send(Message("Orders", b"connects")))
            faulty.refuse_sends(1, code=ResponseCode.NO_PERMISSION)
            with pytest.raises(SendManyError) as caught:
                await call(producer.send_many(messages, batch_size=10))
            assert (caught.value.first, caught.value.last, caught.value.keys) == (0, 9, ("k0",))
            assert caught.value.__cause__.code == ResponseCode.NO_PERMISSION
            faulty.refuse_sends(1, code=ResponseCode.NO_PERMISSION)
            told = lambda error: threads.append((threading.get_ident(), error.first))  # noqa: E731 - it is that short
            result = await call(producer.send_many(messages, batch_size=10, on_failure=told))
            assert result == SendManyResult(messages=40, frames=4, bytes=40, failed=10)
            assert threads == [(threading.get_ident(), 0)]

    surface.run(main)


def test_what_the_iterable_raises_comes_out_as_it_is(surface, namesrv, topic):
    def broken():
        yield from (Message(topic, b"x") for _ in range(500))
        raise KeyError("mine")

    async def main():
        async with entered(surface.module.Producer("pg", namesrv=namesrv)) as producer:
            with pytest.raises(KeyError, match="mine"):
                await call(producer.send_many(broken(), batch_size=50))
            assert (await call(producer.send(Message(topic, b"x")))).status is SendStatus.SEND_OK

    surface.run(main)


def test_what_cannot_be_iterated_over_is_refused(surface, namesrv):
    async def main():
        async with entered(surface.module.Producer("pg", namesrv=namesrv)) as producer:
            for arguments in ((5,), (Message("T", b"x"),), (None,)):
                with pytest.raises(ConfigError, match="iterable of messages"):
                    await call(producer.send_many(*arguments))
            with pytest.raises(ConfigError, match="batch_size"):
                await call(producer.send_many([], batch_size="all"))
            assert (await call(producer.send_many([]))).messages == 0

    surface.run(main)


@pytest.mark.parametrize("name", ASYNC)
def test_async_iterables_are_taken_where_they_can_be_awaited(name, cluster, namesrv, topic):
    surface = SURFACES[name]
    step = trio.lowlevel.checkpoint if name == "trio" else partial(asyncio.sleep, 0)

    async def messages():
        for number in range(100):
            await step()
            yield Message(topic, b"%d" % number)

    async def main():
        async with entered(surface.module.Producer("pg", namesrv=namesrv)) as producer:
            return await producer.send_many(messages(), batch_size=30)

    result = surface.run(main)
    assert (result.messages, result.frames) == (100, 4)
    assert len(cluster.messages(topic)) == 100


def test_blocking_code_has_nothing_to_await_an_async_iterable_with(namesrv, topic):
    async def messages():
        yield Message(topic, b"x")

    given = messages()
    with SURFACES["blocking"].module.Producer("pg", namesrv=namesrv) as producer:
        with pytest.raises(ConfigError, match="iterable of messages"):
            producer.send_many(given)


@pytest.mark.parametrize("name", ASYNC)
def test_other_tasks_run_meanwhile(name, namesrv, topic):
    surface = SURFACES[name]
    step = trio.lowlevel.checkpoint if name == "trio" else partial(asyncio.sleep, 0)
    turns = 0

    async def main():
        nonlocal turns
        async with entered(surface.module.Producer("pg", namesrv=namesrv)) as producer:
            await producer.send(Message(topic, b"connects"))
            sending = producer.send_many((Message(topic, b"x") for _ in range(5000)), batch_size=100)
            if name == "trio":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(turn)
                    await sending
                    nursery.cancel_scope.cancel()
            else:
                other = asyncio.create_task(turn())
                await sending
                other.cancel()
                await asyncio.wait([other])

    async def turn():
        nonlocal turns
        while True:
            turns += 1
            await step()

    surface.run(main)
    assert turns > 20


@pytest.mark.parametrize("name", ASYNC)
def test_one_that_is_cancelled_leaves_nothing_behind(name, faulty, monkeypatch):
    surface = SURFACES[name]

    def call_when_it_waits_for_room(action):
        wait_change = FramesInFlight._wait_change

        async def told(flight):
            action()
            await wait_change(flight)

        monkeypatch.setattr(FramesInFlight, "_wait_change", told)

    async def main():
        settings = {"namesrv": faulty.name_server_addresses, "send_timeout": 30.0}
        async with entered(surface.module.Producer("pg", **settings)) as producer:
            await producer.send(Message("Orders", b"connects"))
            faulty.lose_answers(100)
            many = producer.send_many((Message("Orders", b"x") for _ in range(5000)), batch_size=100)
            if name == "trio":
                with trio.CancelScope() as scope:
                    call_when_it_waits_for_room(scope.cancel)
                    await many
                assert scope.cancelled_caught
            else:
                sending = asyncio.ensure_future(many)
                loop = asyncio.get_running_loop()
                call_when_it_waits_for_room(lambda: loop.call_soon_threadsafe(sending.cancel))
                with pytest.raises(asyncio.CancelledError):
                    await sending
                await asyncio.to_thread(portal().call, trio.lowlevel.checkpoint)  # the portal has heard of it
            assert getattr(producer, "_inner", producer).outside.sends.total == 0
            faulty.heal()

    surface.run(main)
    gc.collect()


def test_ctrl_c_gives_up_what_is_in_flight(faulty):
    """The signal strikes where the messages come from; the thread that waits for room is struck by `portal.call`."""

    def struck():
        yield from (Message("Orders", b"x") for _ in range(200))
        raise KeyboardInterrupt

    settings = {"namesrv": faulty.name_server_addresses, "send_timeout": 300.0}
    with SURFACES["blocking"].module.Producer("pg", **settings) as producer:
        producer.send(Message("Orders", b"connects"))
        faulty.lose_answers(100)
        with pytest.raises(KeyboardInterrupt):
            producer.send_many(struck(), batch_size=100)
        faulty.heal()
        assert producer.send(Message("Orders", b"x")).status is SendStatus.SEND_OK


@pytest.mark.slow
@pytest.mark.parametrize("name", SURFACES)
def test_ctrl_c_ends_a_program_that_waits_for_room(name):
    """A broker that never answers stands for one that hangs; Ctrl-C must not."""
    program = textwrap.dedent(
        """
        import asyncio, sys, trio, rocketpy, rocketpy.aio, rocketpy.sync
        from rocketpy.producer.frames_in_flight import FramesInFlight
        from rocketpy_broker_sim import BlockingLocalCluster
        def messages():
            for _ in range(100_000):
                yield rocketpy.Message("Orders", b"x")
        wait_change = FramesInFlight._wait_change
        async def told(flight):
            print("waits for room", flush=True)
            await wait_change(flight)
        FramesInFlight._wait_change = told
        with BlockingLocalCluster() as cluster:
            settings = {"namesrv": cluster.name_server_addresses, "send_timeout": 600.0}
            if sys.argv[1] == "blocking":
                with rocketpy.sync.Producer("pg", **settings) as producer:
                    producer.send(rocketpy.Message("Orders", b"connects"))
                    cluster.lose_answers(1000)
                    producer.send_many(messages())
            else:
                kind = rocketpy.Producer if sys.argv[1] == "trio" else rocketpy.aio.Producer
                async def main():
                    async with kind("pg", **settings) as producer:
                        await producer.send(rocketpy.Message("Orders", b"connects"))
                        cluster.lose_answers(1000)
                        await producer.send_many(messages())
                trio.run(main) if sys.argv[1] == "trio" else asyncio.run(main())
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "waits for room\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors
    assert process.returncode in {-signal.SIGINT, 130, 1}


def test_a_broker_that_restarts_meanwhile_loses_nothing_that_was_acknowledged(surface, faulty):
    failures = []

    def messages():
        for number in range(2000):
            if number == 1000:
                faulty.restart_broker(0)
            yield Message("Orders", b"%d" % number)

    async def main():
        async with entered(surface.module.Producer("pg", namesrv=faulty.name_server_addresses)) as producer:
            await call(producer.send(Message("Orders", b"0")))
            result = await call(producer.send_many(messages(), batch_size=50, on_failure=failures.append))
            assert result.messages + result.failed == 2000
            again = [
                Message("Orders", b"%d" % number)
                for failure in failures
                for number in range(failure.first, failure.last + 1)
            ]
            assert len(again) == result.failed
            assert (await call(producer.send_many(again))).messages == len(again)

    surface.run(main)
    assert {int(each.body) for each in faulty.messages("Orders")} == set(range(2000))


def test_many_threads_share_one_producer(cluster, namesrv, topic):
    with SURFACES["blocking"].module.Producer("pg", namesrv=namesrv) as producer:
        results = []

        def send():
            results.append(producer.send_many((Message(topic, b"x") for _ in range(1000)), batch_size=50))

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert [result.messages for result in results] == [1000] * 4
    assert len(cluster.messages(topic)) == 4000
