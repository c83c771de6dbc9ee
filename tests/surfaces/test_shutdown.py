"""Closing: what is under way ends, in bounded time, and a process ends without a word about it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from functools import partial

import pytest
import trio

from rocketpy import ConfigError, ConsumeFromWhere, Message, RequestTimeoutError, SendStatus
from rocketpy.sync import Producer as BlockingProducer
from rocketpy.wire.codes import RequestCode
from tests.producer.brokers import SendBroker
from tests.surfaces.surface import SURFACES, call, entered

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
SOON = 9.0
"""Seconds for closing beside a listener that hangs: less than the ten that it is given by default."""


def fill(namesrv, topic, count):
    with BlockingProducer("filler", namesrv=namesrv) as producer:
        producer.create_topic(topic, queues=2)
        for number in range(count):
            producer.send(Message(topic, b"%d" % number))


def test_S11_two_producers_of_one_group_share_no_client_and_are_fine_with_one_each(surface, namesrv, topic):
    async def main():
        make = surface.module.Producer
        async with entered(surface.module.MQClientInstance(namesrv=namesrv)) as client:
            async with entered(make("same", client=client)) as first:
                with pytest.raises(ConfigError, match="same"):
                    async with entered(make("same", client=client)):
                        raise AssertionError("the second one has started")
                assert (await call(first.send(Message(topic, b"x")))).status is SendStatus.SEND_OK
            async with entered(make("same", client=client)) as again:
                assert (await call(again.send(Message(topic, b"x")))).status is SendStatus.SEND_OK
        async with entered(make("same", namesrv=namesrv)) as one, entered(make("same", namesrv=namesrv)) as two:
            for producer in (one, two):
                assert (await call(producer.send(Message(topic, b"x")))).status is SendStatus.SEND_OK

    surface.run(main)


@pytest.mark.slow
@pytest.mark.waits("a listener works on while its consumer closes")
def test_closing_waits_for_listeners_that_are_at_work(surface, namesrv, topic):
    fill(namesrv, topic, 1)
    begun, got = threading.Event(), []

    def listener(message):
        begun.set()
        time.sleep(0.3)
        got.append(message.body)

    async def main():
        async with entered(
            surface.module.PushConsumer(f"waits-{surface.name}", namesrv=namesrv, consume_from_where=FIRST)
        ) as consumer:
            consumer.subscribe(topic, listener)
            await call(consumer.wait_assigned(10))
            while not begun.is_set():
                await call(consumer.wait_assigned(10))
                time.sleep(0.01)  # noqa: ASYNC251
        assert got == [b"0"]
        fill(namesrv, topic, 1)
        begun.clear()
        async with entered(surface.module.PushConsumer(f"waits-{surface.name}", namesrv=namesrv)) as consumer:
            consumer.subscribe(topic, listener)
            while not begun.is_set():
                await call(consumer.wait_assigned(10))
                time.sleep(0.01)  # noqa: ASYNC251
        assert len(got) == 2  # what was finished while it closed was committed

    surface.run(main)


@pytest.mark.waits("a listener hangs for as long as closing may wait for it")
@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_a_listener_that_hangs_delays_closing_by_await_termination_only(surface, namesrv, topic, caplog, orderly):
    fill(namesrv, topic, 1)
    begun, release = threading.Event(), threading.Event()

    def hang(message):
        begun.set()
        release.wait(60)

    async def main():
        consumer = surface.module.PushConsumer(
            f"hangs-{surface.name}-{orderly}",
            namesrv=namesrv,
            consume_from_where=FIRST,
            await_termination=0.2,
            close_timeout=1.0,
            orderly=orderly,
        )
        async with entered(consumer):
            consumer.subscribe(topic, hang)
            while not begun.is_set():
                await call(consumer.wait_assigned(10))
                time.sleep(0.01)  # noqa: ASYNC251
            began = time.monotonic()
        assert time.monotonic() - began < SOON

    try:
        surface.run(main)
    finally:
        release.set()
    assert "still running" in caplog.text


class InOrder:
    """A group that consumes the three messages of a queue in order."""

    def __init__(self, surface, namesrv, topic, kind):
        self.surface, self.topic, self.kind = surface, topic, kind
        self.settings = {"namesrv": namesrv, "consume_from_where": FIRST, "orderly": True}
        self.begun, self.release, self.full = threading.Event(), threading.Event(), threading.Event()
        self.hung, self.got = [], []
        with BlockingProducer("filler", namesrv=namesrv) as producer:
            producer.create_topic(topic, queues=1)
            for number in range(3):
                producer.send(Message(topic, b"%d" % number))

    def member(self, listener, **settings):
        group = f"hangs-in-order-{self.surface.name}-{self.kind}"
        consumer = self.surface.module.PushConsumer(group, **self.settings, **settings)
        consumer.subscribe(self.topic, listener)
        return entered(consumer)

    def hang(self, message):
        self.hung.append(message.body)
        self.begun.set()
        self.release.wait(60)

    async def hang_async(self, message):
        self.hung.append(message.body)
        self.begun.set()
        await (asyncio.Event() if self.surface.name == "asyncio" else trio.Event()).wait()

    async def hang_and_close(self):
        """Leave while the listener is in its first message."""
        listener = self.hang if self.kind == "plain" else self.hang_async
        async with self.member(listener, await_termination=0.2, close_timeout=1.0):
            assert await self.wait(self.begun)
            began = time.monotonic()
        assert time.monotonic() - began < SOON

    def note(self, message):
        self.got.append(message.body)
        if len(self.got) == 3:
            self.full.set()

    async def wait(self, event):
        wait = partial(event.wait, 20)
        if self.surface.name == "blocking":
            return wait()
        return await (trio.to_thread.run_sync(wait) if self.surface.name == "trio" else asyncio.to_thread(wait))


@pytest.mark.slow
@pytest.mark.waits("a listener hangs for as long as closing may wait for it")
def test_a_queue_stays_locked_while_a_thread_that_nobody_can_end_is_in_its_listener(surface, namesrv, topic, caplog):
    """Nobody else consumes it meanwhile, and nothing behind that message begins when the listener ends after all."""
    group = InOrder(surface, namesrv, topic, "plain")

    async def main():
        await group.hang_and_close()
        async with group.member(lambda message: group.got.append(message.body)) as consumer:
            while "locked by another member" not in str(consumer.status().errors.get(topic)):
                with pytest.raises(RequestTimeoutError, match="got no queue"):
                    await call(consumer.wait_assigned(0.1))
            group.release.set()
            with pytest.raises(RequestTimeoutError, match="got no queue"):
                await call(consumer.wait_assigned(0.5))

    try:
        surface.run(main)
    finally:
        group.release.set()
    assert "the broker keeps these queues locked for up to 60 s more" in caplog.text
    assert (group.hung, group.got) == ([b"0"], [])


@pytest.mark.waits("a listener hangs for as long as closing may wait for it")
def test_what_a_cancelled_listener_has_hung_in_comes_again_before_what_is_behind_it(surface, namesrv, topic):
    group = InOrder(surface, namesrv, topic, "async")

    async def main():
        await group.hang_and_close()
        async with group.member(group.note):
            assert await group.wait(group.full)

    surface.run(main)
    assert (group.hung, group.got) == ([b"0"], [b"0", b"1", b"2"])


@pytest.mark.waits("blocking code and asyncio have no virtual clock, and nobody answers a goodbye")
@pytest.mark.parametrize("surface", [SURFACES["blocking"], SURFACES["asyncio"]], ids=["blocking", "asyncio"])
def test_goodbyes_that_nobody_answers_are_bounded_by_close_timeout(surface, fakes):
    """The fakes live in the portal; for trio see the tests of the producer."""
    broker = SendBroker()
    broker.on(RequestCode.UNREGISTER_CLIENT, lambda connection, request: None)

    async def main(settings):
        bounds = {"close_timeout": 0.1, "request_timeout": 30}
        async with entered(surface.module.Producer("pg", **bounds, **settings)) as producer:
            await call(producer.send(Message("T", b"x")))
            raise ValueError("mine")

    with fakes(broker) as settings:
        began = time.monotonic()
        with pytest.raises(ValueError, match="mine"):
            surface.run(lambda: main(settings))
        assert time.monotonic() - began < SOON


# --- whole processes ------------------------------------------------------------------------------------

PRELUDE = """
import asyncio, sys, threading, trio, rocketpy, rocketpy.aio, rocketpy.sync
surface, namesrv, topic = sys.argv[1:]
module = {"trio": rocketpy, "blocking": rocketpy.sync, "asyncio": rocketpy.aio}[surface]
message = rocketpy.Message(topic, b"x")
def run(main):
    if surface == "trio": trio.run(main)
    else: asyncio.run(main(), debug=True)
def say(message):
    print("got", flush=True)
async def async_say(message):
    print("got", flush=True)
first = rocketpy.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
"""
LEFT_BY_SYS_EXIT = """
if surface == "blocking":
    with module.Producer("pg", namesrv=namesrv) as producer:
        producer.send(message)
        sys.exit(0)
async def main():
    async with module.Producer("pg", namesrv=namesrv) as producer:
        await producer.send(message)
        sys.exit(0)
run(main)
"""
FORGOTTEN = """
consumer = module.PushConsumer("forgotten", namesrv=namesrv, consume_from_where=first)
consumer.subscribe(topic, async_say if surface == "asyncio" else say)
if surface == "blocking":
    producer = module.Producer("pg", namesrv=namesrv)
    producer.start()
    consumer.start()
    print(producer.send(message).status.name, flush=True)
    for _ in range(500): producer.send_soon(message)
else:
    async def main():
        global producer
        producer = module.Producer("pg", namesrv=namesrv)
        await producer.__aenter__()
        await consumer.__aenter__()
        print((await producer.send(message)).status.name, flush=True)
        tasks = [asyncio.create_task(producer.send(message)) for _ in range(500)]
        await asyncio.sleep(0.01)
    run(main)
"""
A_LISTENER_AT_WORK = """
begun = threading.Event()
def hang(message):
    begun.set()
    threading.Event().wait(600)
settings = dict(namesrv=namesrv, consume_from_where=first, await_termination=0.2)
if surface == "blocking":
    with module.Producer("pg", namesrv=namesrv) as producer, module.PushConsumer("busy", **settings) as consumer:
        consumer.subscribe(topic, hang)
        producer.send(message)
        begun.wait(20)
else:
    async def main():
        producer, consumer = module.Producer("pg", namesrv=namesrv), module.PushConsumer("busy", **settings)
        async with producer, consumer:
            consumer.subscribe(topic, hang)
            await producer.send(message)
            while not begun.is_set():
                await consumer.wait_assigned()
                await (trio if surface == "trio" else asyncio).sleep(0.01)
    run(main)
"""


AN_ORDERLY_LISTENER_AT_WORK = A_LISTENER_AT_WORK.replace("await_termination", "orderly=True, await_termination")

PROGRAMS = {
    "left by sys.exit": (LEFT_BY_SYS_EXIT, ""),
    "forgotten": (FORGOTTEN, "SEND_OK"),
    "a listener at work": (A_LISTENER_AT_WORK, ""),
    "an orderly listener at work": (AN_ORDERLY_LISTENER_AT_WORK, ""),
}


QUICK = {
    ("blocking", "left by sys.exit"),
    ("asyncio", "forgotten"),
    ("trio", "a listener at work"),
    ("blocking", "an orderly listener at work"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "program"),
    [
        pytest.param(name, program, marks=() if (name, program) in QUICK else pytest.mark.matrix)
        for name in SURFACES
        for program in PROGRAMS
        if (name, program) != ("trio", "forgotten")  # trio lets nobody forget to leave what was entered
    ],
)
def test_a_process_ends_with_code_0_and_without_a_traceback(name, program, namesrv, topic):
    fill(namesrv, topic, 1)
    code, said = PROGRAMS[program]
    ran = subprocess.run(
        [sys.executable, "-c", PRELUDE + code, name, namesrv, topic],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert not [sign for sign in ("Traceback", "never retrieved", "was destroyed") if sign in ran.stderr], ran.stderr
    assert said in ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rocketpy", "rocketpy.aio", "rocketpy.sync"])
def test_a_surface_loads_its_parts_on_first_use(name):
    """Importing it loads nothing that costs time; a producer does not load what consumers need."""
    program = f"import sys, {name}; early = set(sys.modules); {name}.Producer; print(*early); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=40, check=True)
    early, late = (set(line.split()) for line in ran.stdout.splitlines())
    assert not early & {"trio", "asyncio", "rocketpy.client.instance", "rocketpy.portal", "rocketpy.message"}
    assert "rocketpy.producer.producer" in late
    assert not [module for module in late if module.startswith("rocketpy.consumer")]
