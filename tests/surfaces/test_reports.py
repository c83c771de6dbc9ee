"""`on_statistics`: called at an interval, where functions of users are, and never when its caller is closed."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from rocketpy import (
    ConfigError,
    LitePullConsumerStatistics,
    Message,
    ProducerStatistics,
    PullConsumerStatistics,
    PushConsumerStatistics,
)
from tests.surfaces.surface import SURFACES, call, entered
from tests.surfaces.test_lite_figures import SLEEP, eventually

pytestmark = pytest.mark.waits("waits for threads and loops of other kinds")

KINDS = {
    "Producer": ProducerStatistics,
    "TransactionProducer": ProducerStatistics,
    "PushConsumer": PushConsumerStatistics,
    "LitePullConsumer": LitePullConsumerStatistics,
    "PullConsumer": PullConsumerStatistics,
}


class Heard:
    """What has been told, and from which threads."""

    def __init__(self, *, failing=0, error=ZeroDivisionError):
        self.told, self.threads, self.failing, self.error = [], set(), failing, error

    def plain(self, statistics):
        self.told.append(statistics)
        self.threads.add(threading.current_thread().name)
        if len(self.told) <= self.failing:
            raise self.error("as told")

    async def awaited(self, statistics):
        self.plain(statistics)

    def function(self, way):
        return self.plain if way == "plain" else self.awaited


def made(surface, kind, namesrv, topic, **settings):
    more = {"checker": lambda message: None} if kind == "TransactionProducer" else {}
    role = getattr(surface.module, kind)(
        f"{kind}-{topic}", namesrv=namesrv, statistics_interval=0.02, **settings, **more
    )
    if kind == "PushConsumer":
        role.subscribe(topic, lambda message: None)
    elif kind == "LitePullConsumer":
        role.subscribe(topic)
    return role


@pytest.mark.slow
@pytest.mark.parametrize("way", ["plain", "async"])
@pytest.mark.parametrize("kind", KINDS)
def test_statistics_are_told_at_an_interval_and_errors_change_nothing(surface, namesrv, topic, kind, way, caplog):
    heard = Heard(failing=1)

    async def main():
        async with entered(surface.module.Producer("p", namesrv=namesrv)) as producer:
            await call(producer.send(Message(topic, b"1")))
        async with entered(made(surface, kind, namesrv, topic, on_statistics=heard.function(way))) as role:
            if "Producer" in kind:
                await call(role.send(Message(topic, b"2")))
            await eventually(surface, lambda: len(heard.told) >= 3)
        before = len(heard.told)
        await call(SLEEP[surface.name](0.06))
        assert len(heard.told) == before

    surface.run(main)
    assert {type(each) for each in heard.told} == {KINDS[kind]}
    if "Producer" in kind:
        assert heard.told[-1].sent == 1
    assert "rocketpy-portal" not in heard.threads
    failures = [record for record in caplog.records if "on_statistics failed" in record.message]
    assert [record.exc_info[0] for record in failures] == [ZeroDivisionError]


def test_no_error_of_the_function_ends_its_caller(surface, namesrv, topic, caplog):
    """On trio, KeyboardInterrupt ends the program, whose main thread gets it."""
    errors = [asyncio.CancelledError, SystemExit, *([] if surface.name == "trio" else [KeyboardInterrupt])]

    async def main():
        for error in errors:
            heard = Heard(failing=1, error=error)
            async with entered(made(surface, "Producer", namesrv, topic, on_statistics=heard.plain)) as producer:
                await eventually(surface, lambda heard=heard: len(heard.told) >= 3)
                await call(producer.send(Message(topic, b"1")))

    surface.run(main)
    failures = [record for record in caplog.records if "on_statistics failed" in record.message]
    assert [record.exc_info[0] for record in failures] == errors


@pytest.mark.parametrize("kind", KINDS)
def test_closing_waits_for_a_call_that_is_under_way(surface, namesrv, topic, kind):
    begun, under_way = threading.Event(), []

    def slow(statistics):
        under_way.append(statistics)
        begun.set()
        time.sleep(0.1)
        under_way.pop()

    async def main():
        async with entered(made(surface, kind, namesrv, topic, on_statistics=slow)):
            await eventually(surface, begun.is_set)
        assert under_way == []

    surface.run(main)


@pytest.mark.parametrize("kind", ["Producer", "LitePullConsumer", "PushConsumer", "PullConsumer"])
@pytest.mark.parametrize("name", ["asyncio", "blocking"])  # a block of trio is left in the task that entered it
def test_closing_in_the_function_does_not_wait_for_itself(name, namesrv, topic, kind):
    surface = SURFACES[name]
    closed = threading.Event()

    async def main():
        async def close_async(statistics):
            await role.aclose()
            closed.set()

        def close(statistics):
            role.close()
            closed.set()

        function = close if surface.name == "blocking" else close_async
        role = made(surface, kind, namesrv, topic, on_statistics=function, close_timeout=30)
        started = time.monotonic()
        await call(role.start())
        await eventually(surface, closed.is_set)
        await call(role.close() if surface.name == "blocking" else role.aclose())
        assert time.monotonic() - started < role.config.close_timeout

    surface.run(main)


def test_what_is_no_function_of_statistics_is_refused(surface):
    for wrong in (3, lambda: None, ProducerStatistics):
        with pytest.raises(ConfigError, match="on_statistics must be a function"):
            surface.module.Producer("p", namesrv="n:1", on_statistics=wrong)
    with pytest.raises(ConfigError, match="statistics_interval"):
        surface.module.Producer("p", namesrv="n:1", statistics_interval=0)
