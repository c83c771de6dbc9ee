"""Async functions of blocking code, each in a loop of its own."""

from __future__ import annotations

import threading

import pytest
import trio

from rocketpy.portal import portal
from rocketpy.sync import calls
from rocketpy.sync.calls import call_in_own_loop

USUAL = 40
"""Threads of trio's own limiter."""


@pytest.mark.slow
def test_many_of_them_leave_the_threads_for_names_of_hosts_alone() -> None:
    release, inside = threading.Event(), threading.Semaphore(0)

    async def hangs() -> None:
        inside.release()
        release.wait(60)

    async def look_up() -> object:
        with trio.fail_after(20):
            return await trio.socket.getaddrinfo("localhost", 80)

    hanging = [threading.Thread(target=portal().call, args=(call_in_own_loop, hangs, ())) for _ in range(USUAL)]
    for thread in hanging:
        thread.start()
    try:
        for _ in hanging:
            assert inside.acquire(timeout=20)
        assert portal().call(look_up)
    finally:
        release.set()
        for thread in hanging:
            thread.join()


async def test_one_that_is_cancelled_before_its_loop_runs_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, cancelled, ended, ran = threading.Event(), threading.Event(), threading.Event(), []
    real = trio.run

    def late(*arguments):  # type: ignore[no-untyped-def]
        entered.set()
        assert cancelled.wait(20)
        try:
            return real(*arguments)
        finally:
            ended.set()

    async def function() -> None:
        ran.append("at all")

    monkeypatch.setattr(calls.trio, "run", late)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call_in_own_loop, function, ())
        assert await trio.to_thread.run_sync(entered.wait, 20)
        nursery.cancel_scope.cancel()
    cancelled.set()
    assert await trio.to_thread.run_sync(ended.wait, 20)
    assert ran == []
