"""Nurseries of services: whose error comes out; ticks in virtual time."""

# ruff: noqa: PT012  what is tested is what comes out of a whole block

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import ClientClosedError, ConfigError, ServiceCrashedError
from rocketpy.services import is_from_outside, open_services, outliving, run_blocking, side_by_side, start_whole, ticks


async def crash() -> None:
    raise KeyError("bug")


async def interrupt() -> None:
    raise KeyboardInterrupt


async def test_services_end_with_the_body() -> None:
    ended = False

    async def service() -> None:
        nonlocal ended
        try:
            await trio.sleep_forever()
        finally:
            ended = True

    async with open_services() as nursery:
        nursery.start_soon(service)
        await trio.testing.wait_all_tasks_blocked()
    assert ended


async def test_an_error_of_the_body_comes_out_bare() -> None:
    with pytest.raises(ValueError, match="mine") as caught:
        async with open_services() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise ValueError("mine")
    assert not hasattr(caught.value, "__notes__")


async def test_ctrl_c_during_calls_side_by_side_stays_ctrl_c(autojump_clock: MockClock) -> None:
    async def work(number: int) -> None:
        await trio.sleep(number)
        if number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await side_by_side(work, (1, 2, 3))

    async def fail(number: int) -> None:
        raise KeyError(number)

    with pytest.raises(ExceptionGroup):
        await side_by_side(fail, (1, 2))


def test_ctrl_c_comes_before_or_after_the_start_of_a_task() -> None:
    ran = []

    async def task() -> None:
        ran.append(True)

    def called() -> Awaitable[None]:
        coroutine = task()
        signal.raise_signal(signal.SIGINT)
        return coroutine

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            start_whole(nursery, called)

    with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)):
        trio.run(main)
    assert ran == [True]


async def test_a_crashed_service_cancels_the_body_and_says_so() -> None:
    with pytest.raises(ServiceCrashedError, match="KeyError") as caught:
        async with open_services() as nursery:
            nursery.start_soon(crash)
            await trio.sleep_forever()
    assert isinstance(caught.value.__cause__, BaseExceptionGroup)
    assert isinstance(caught.value.__cause__.exceptions[0], KeyError)


@pytest.mark.parametrize("wrap", [False, True])
async def test_both_at_once_give_the_bodys_error_with_a_note(wrap: bool) -> None:
    error: Exception = ExceptionGroup("mine", [ValueError()]) if wrap else ValueError("mine")
    with pytest.raises(type(error)) as caught:
        async with open_services() as nursery:
            try:
                nursery.start_soon(crash)
                await trio.sleep_forever()
            finally:
                raise error
    assert caught.value is error
    assert "KeyError" in caught.value.__notes__[0]


async def test_a_group_of_the_body_is_not_taken_for_a_crash() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with open_services() as services:
            services.start_soon(trio.sleep_forever)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(crash)
                await trio.sleep_forever()
    assert not hasattr(caught.value, "__notes__")


async def test_cancellation_from_outside_stays_cancellation() -> None:
    with trio.move_on_after(0) as scope:
        async with open_services() as nursery:
            nursery.start_soon(trio.sleep_forever)
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_a_crash_under_cancellation_is_not_lost() -> None:
    async def late_crash() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("bug")

    with trio.CancelScope() as scope, pytest.raises(ServiceCrashedError):
        async with open_services() as nursery:
            nursery.start_soon(late_crash)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()


async def test_ctrl_c_in_a_service_stays_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt):
        async with open_services() as nursery:
            nursery.start_soon(interrupt)
            await trio.sleep_forever()


async def test_ctrl_c_in_a_service_is_not_lost_though_the_body_fails_because_of_it() -> None:
    ended = trio.Event()

    async def struck() -> None:
        ended.set()
        raise KeyboardInterrupt

    error = ClientClosedError("the client is not open")
    with pytest.raises(KeyboardInterrupt) as caught:
        async with open_services() as nursery:
            nursery.start_soon(struck)
            with trio.CancelScope(shield=True):
                await ended.wait()
            raise error
    assert caught.value.__context__ is error


GROUP = BaseExceptionGroup("mine", [ValueError(), KeyboardInterrupt()])


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GROUP, SystemExit(), asyncio.CancelledError(), ValueError()])
def test_ctrl_c_comes_from_outside_in_the_main_thread_alone(error: BaseException) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert not pool.submit(is_from_outside, error).result()
    assert is_from_outside(error) is (error is GROUP or isinstance(error, KeyboardInterrupt))


async def tick_times(count: int, work: Callable[[int], Awaitable[None]], **options: float) -> list[float]:
    begun, times = trio.current_time(), []
    async for _ in ticks(10, **options):
        times.append(round(trio.current_time() - begun, 6))
        if len(times) == count:
            break
        await work(len(times))
    return times


async def nothing(_: int) -> None:
    await trio.lowlevel.checkpoint()


async def test_ticks_come_at_a_fixed_rate(autojump_clock: MockClock) -> None:
    assert await tick_times(3, nothing) == [10, 20, 30]
    assert await tick_times(3, nothing, initial_delay=1) == [1, 11, 21]
    assert await tick_times(2, nothing, initial_delay=0) == [0, 10]


async def test_missed_ticks_are_left_out(autojump_clock: MockClock) -> None:
    async def slow_once(turn: int) -> None:
        await trio.sleep(25 if turn == 1 else 0)

    assert await tick_times(3, slow_once) == [10, 35, 40]


async def test_a_tick_can_be_called_for(autojump_clock: MockClock) -> None:
    begun, times = trio.current_time(), []
    clock = ticks(10)

    async def hurry() -> None:
        await trio.sleep(4)
        clock.now()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hurry)
        async for _ in clock:
            times.append(trio.current_time() - begun)
            if len(times) == 3:
                break
    assert times == pytest.approx([4, 14, 24])


def test_an_interval_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 0"):
        ticks(0)


async def test_blocking_calls_stand_still_in_virtual_time(autojump_clock: MockClock) -> None:
    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 100)
        assert await run_blocking(sorted, [2, 1]) == [1, 2]
        assert trio.current_time() == begun
        nursery.cancel_scope.cancel()


async def test_blocking_calls_run_in_a_thread() -> None:
    import threading

    assert await run_blocking(threading.get_ident) != threading.get_ident()


# --- outliving -----------------------------------------------------------------------------------------


class Held:
    """A context manager with a service of its own, that takes notes."""

    def __init__(self, *, start: Exception | None = None, end: Exception | None = None) -> None:
        self.notes: list[str] = []
        self.start, self.end = start, end
        self.crash = trio.Event()

    async def service(self) -> None:
        try:
            await self.crash.wait()
            raise ZeroDivisionError("a bug")
        finally:
            self.notes.append("service ended")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        async with open_services() as nursery:
            nursery.start_soon(self.service)
            await trio.lowlevel.checkpoint()
            if self.start is not None:
                raise self.start
            try:
                yield "value"
            finally:
                with trio.move_on_after(1, shield=True):
                    await trio.sleep(0.5)
                    self.notes.append("said goodbye")
        if self.end is not None:
            raise self.end


async def test_what_outlives_leaves_in_order_although_the_body_is_cancelled(autojump_clock: MockClock) -> None:
    held = Held()
    with trio.CancelScope() as scope:
        async with outliving(held.open()) as value:
            assert value == "value"
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert held.notes == ["said goodbye", "service ended"]


async def test_what_outlives_is_left_at_the_end_of_the_body_too(autojump_clock: MockClock) -> None:
    held = Held()
    async with outliving(held.open()):
        await trio.sleep(5)
        assert held.notes == []
    assert held.notes == ["said goodbye", "service ended"]


async def test_a_cancelled_start_of_what_outlives_ends_at_once(autojump_clock: MockClock) -> None:
    held = Held()
    with trio.CancelScope() as scope:
        scope.cancel()
        async with outliving(held.open()):
            raise AssertionError("it was cancelled before")
    assert held.notes == ["service ended"]


async def test_errors_of_start_body_and_end_come_out_as_they_are(autojump_clock: MockClock) -> None:
    with pytest.raises(ConfigError, match="start"):
        async with outliving(Held(start=ConfigError("start")).open()):
            raise AssertionError("it did not start")
    with pytest.raises(ConfigError, match="end"):
        async with outliving(Held(end=ConfigError("end")).open()):
            pass
    with pytest.raises(ValueError, match="body") as caught:
        async with outliving(Held(end=ConfigError("end")).open()):
            raise ValueError("body")
    assert "end" in caught.value.__notes__[0]


async def test_a_crash_within_what_outlives_is_said_once(autojump_clock: MockClock) -> None:
    held = Held()
    with pytest.raises(ServiceCrashedError, match="a bug: ZeroDivisionError") as caught:
        async with outliving(held.open()):
            held.crash.set()
            await trio.sleep_forever()
    assert str(caught.value).count("met a bug") == 1
    assert held.notes == ["service ended", "said goodbye"]
