"""Transactions on every surface: where executors and checkers run, and what comes of what they say."""

from __future__ import annotations

import asyncio
import functools
import threading
import time

import pytest
import sniffio
import trio

from rocketpy import ConfigError, LocalTransactionState, Message
from rocketpy_broker_sim import BlockingLocalCluster
from tests.surfaces.surface import SURFACES, call, entered

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN


@pytest.fixture(scope="module")
def hasty():
    """A cluster that asks soon."""
    with BlockingLocalCluster(transaction_time_out=100, transaction_check_interval=200) as running:
        yield running


def loop_here():
    try:
        return sniffio.current_async_library()
    except sniffio.AsyncLibraryNotFoundError:
        return None


class Places:
    """Functions that note where they run."""

    def __init__(self, state=COMMIT):
        self.state = state
        self.seen = []
        self.asked = threading.Event()

    def note(self, message):
        self.seen.append((message.transaction_id, threading.current_thread(), loop_here()))
        self.asked.set()
        return self.state

    def execute(self, message, arg):
        assert arg == "arg"
        return self.note(message)

    async def execute_async(self, message, arg):
        return self.execute(message, arg)

    def check(self, message):
        return self.note(message)

    async def check_async(self, message):
        return self.note(message)


async def aside(surface, function):
    """What blocks, without holding up the loop."""
    if surface.name == "trio":
        return await trio.to_thread.run_sync(function)
    return await asyncio.to_thread(function) if surface.name == "asyncio" else function()


async def wait(surface, event):
    assert await aside(surface, functools.partial(event.wait, 20))


def bodies(cluster, topic):
    return sorted(message.body for message in cluster.messages(topic))


# --- executors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["execute", "execute_async"])
def test_where_executors_run(surface, cluster, namesrv, topic, kind):
    places, here = Places(), threading.current_thread()

    async def main():
        made = surface.module.TransactionProducer("shop", checker=places.check, namesrv=namesrv)
        async with entered(made) as producer:
            execute = getattr(places, kind)
            return [
                await call(producer.send_in_transaction(Message(topic, b"%d" % number), execute, "arg"))
                for number in range(3)
            ]

    results = surface.run(main)
    assert [result.local_state for result in results] == [COMMIT] * 3
    assert [seen[0] for seen in places.seen] == [result.transaction_id for result in results]
    cluster.wait_messages(topic, 3)
    assert bodies(cluster, topic) == [b"0", b"1", b"2"]
    if kind == "execute_async":
        assert {loop for *_, loop in places.seen} == {"asyncio" if surface.name == "asyncio" else "trio"}
        assert all((thread is here) == (surface.name != "blocking") for _, thread, _ in places.seen)
    else:
        assert {loop for *_, loop in places.seen} == {None}
        assert all((thread is here) == (surface.name == "blocking") for _, thread, _ in places.seen)


async def never(half, arg):
    raise AssertionError("it is not awaited")


NO_STATE = (
    ", which is not a LocalTransactionState: return LocalTransactionState.COMMIT, ROLLBACK or UNKNOWN, or 'commit', "
    "'rollback' or 'unknown'"
)


def test_what_executors_say(surface, cluster, namesrv, topic):
    failure = ValueError("no")

    def execute(message, arg):
        if arg is failure:
            raise arg
        return arg

    async def main():
        made = surface.module.TransactionProducer("shop", checker=lambda m: UNKNOWN, executor=execute, namesrv=namesrv)
        async with entered(made) as producer:
            said = []
            for arg in (COMMIT, "rollback", "Unknown", failure, "COMMITTED", None):
                result = await call(producer.send_in_transaction(Message(topic, b"x"), arg=arg))
                said.append((result.local_state, result.error if arg is failure else str(result.error)))
            plain = await call(producer.send_in_transaction(Message(topic, b"x"), lambda half, arg: never(half, arg)))
            said.append((plain.local_state, str(plain.error)))
            with pytest.raises(ConfigError, match="must take the message and arg"):
                await call(producer.send_in_transaction(Message(topic, b"x"), lambda message: COMMIT))
            with pytest.raises(ConfigError, match="cannot have delay_level"):
                await call(producer.send_in_transaction(Message(topic, b"x", delay_level=1)))
            return said

    assert surface.run(main) == [
        (COMMIT, "None"),
        (ROLLBACK, "None"),
        (UNKNOWN, "None"),
        (UNKNOWN, failure),
        (UNKNOWN, f"the executor returned 'COMMITTED'{NO_STATE}"),
        (UNKNOWN, f"the executor returned NoneType{NO_STATE}"),
        (UNKNOWN, "the executor returned a coroutine: make the executor an `async def` function itself"),
    ]
    cluster.wait_messages(topic, 1)
    assert bodies(cluster, topic) == [b"x"]


def test_it_is_a_producer_and_an_executor_may_use_it(surface, cluster, namesrv, topic):
    made = surface.module.TransactionProducer("shop", checker=lambda message: UNKNOWN, namesrv=namesrv)

    async def main():
        async with entered(made) as producer:
            assert producer.config.check_request_hold_max == 2000

            async def execute(message, arg):
                await call(producer.send(Message(topic, b"from within")))
                return COMMIT

            def execute_blocking(message, arg):
                producer.send(Message(topic, b"from within"))
                return COMMIT

            chosen = execute_blocking if surface.name == "blocking" else execute
            await call(producer.send_in_transaction(Message(topic, b"outer"), chosen))
            return producer.check_statistics()

    statistics = surface.run(main)
    assert (statistics.answered, statistics.running, statistics.waiting) == (0, 0, 0)
    cluster.wait_messages(topic, 2)
    assert bodies(cluster, topic) == [b"from within", b"outer"]


# --- checkers --------------------------------------------------------------------------------------------


@pytest.mark.waits("a broker asks after some tenths of a second")
@pytest.mark.parametrize("kind", ["check", "check_async"])
def test_where_checkers_run(surface, hasty, topic, kind):
    places, here = Places(), threading.current_thread()

    async def main():
        checker = functools.partial(getattr(places, kind))
        made = surface.module.TransactionProducer(topic, checker=checker, namesrv=hasty.name_server_addresses)
        async with entered(made) as producer:
            result = await call(producer.send_in_transaction(Message(topic, b"x"), lambda message, arg: UNKNOWN))
            await aside(surface, lambda: hasty.wait_messages(topic, 1))
            return result

    result = surface.run(main)
    # It may run more than once: the broker asks again if the answer takes a while.
    assert {transaction_id for transaction_id, *_ in places.seen} == {result.transaction_id}
    if kind == "check_async":
        assert {loop for *_, loop in places.seen} == {"asyncio" if surface.name == "asyncio" else "trio"}
        assert all((thread is here) == (surface.name != "blocking") for _, thread, _ in places.seen)
    else:
        assert {loop for *_, loop in places.seen} == {None}
        assert all(thread is not here for _, thread, _ in places.seen)
    [stored] = hasty.messages(topic)
    assert int(stored.system_properties["TRANSACTION_CHECK_TIMES"]) >= 1


@pytest.mark.waits("a broker asks after some tenths of a second")
@pytest.mark.parametrize("end", ["raises", "hangs"])
def test_checkers_that_fail_hold_up_nothing(surface, hasty, topic, end):
    release, asked = threading.Event(), threading.Event()

    def check(message):
        asked.set()
        if end == "raises":
            raise RuntimeError("not now")
        release.wait(30)
        return COMMIT

    async def main():
        settings = {"namesrv": hasty.name_server_addresses, "close_timeout": 60}
        made = surface.module.TransactionProducer(topic, checker=check, **settings)
        async with entered(made) as producer:
            await call(producer.send_in_transaction(Message(topic, b"x"), lambda message, arg: UNKNOWN))
            await wait(surface, asked)
            assert (await call(producer.send_in_transaction(Message(topic, b"y"), done))).local_state is ROLLBACK
            statistics = producer.check_statistics()
            began = time.monotonic()
        return statistics, time.monotonic() - began

    try:
        statistics, took = surface.run(main)
    finally:
        release.set()
    assert statistics.running <= 1
    assert took < 20  # less than the checker hangs, and closing may take
    assert hasty.messages(topic) == []


def done(message, arg):
    return ROLLBACK


@pytest.mark.waits("a broker asks after some tenths of a second, and another thread closes the blocking producer")
@pytest.mark.parametrize("surface", [SURFACES["blocking"], SURFACES["asyncio"]], ids=["blocking", "asyncio"])
def test_a_checker_may_close_its_producer(surface, hasty, topic):
    """On trio it cannot: a producer is closed by leaving its block."""
    closed = threading.Event()

    async def main():
        def check(message):
            made.close()
            closed.set()
            return COMMIT

        async def check_async(message):
            await made.aclose()
            closed.set()
            return COMMIT

        checker = check_async if surface.name == "asyncio" else check
        made = surface.module.TransactionProducer(topic, checker=checker, namesrv=hasty.name_server_addresses)
        async with entered(made) as producer:
            await call(producer.send_in_transaction(Message(topic, b"x"), lambda message, arg: UNKNOWN))
            await wait(surface, closed)
            # The blocking one closes in another thread, once the checker has returned.
            until = time.monotonic() + 20
            while made.is_open and time.monotonic() < until:
                await aside(surface, functools.partial(time.sleep, 0.01))
            assert not made.is_open

    surface.run(main)  # it may be closed before the answer has gone: another member is asked then
