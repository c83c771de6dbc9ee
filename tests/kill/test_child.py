"""Nothing that a kill loop starts outlives it, however it ends; and slow processes are waited for."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager

import trio
from trio.testing import MockClock

from tests.kill.child import Child
from tests.kill.guard import guarding
from tests.kill.history import History

WITHIN = 60.0
STAYS = ["timeit", "-n1", "-r1", "import time; print('ready', flush=True); time.sleep(600)"]


@contextmanager
def sleeper():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        try:
            yield process
        finally:
            process.kill()


def test_what_is_left_when_the_loop_is_gone_is_killed():
    with sleeper() as left, sleeper() as ended:
        with guarding() as guard:
            guard.add(left.pid)
            guard.add(ended.pid)
            guard.remove(ended.pid)
        assert left.wait(WITHIN) == -signal.SIGKILL
        assert ended.poll() is None


async def test_a_child_ends_with_its_nursery(tmp_path):
    with guarding() as guard, trio.fail_after(WITHIN):
        async with trio.open_nursery() as nursery:
            child = await Child.start(nursery, guard, "me", STAYS, tmp_path / "err", lambda *_: None)
            assert await child.wait_said("ready", WITHIN)
            child.pause()  # as a loop may end in the middle of a pause
            nursery.cancel_scope.cancel()
    assert child.status == -signal.SIGKILL


async def test_who_goes_on_is_waited_for(mock_clock: MockClock):
    mock_clock.autojump_threshold = 0
    history, left = History(), [5]

    async def work(seconds: float) -> None:
        while left[0]:
            await trio.sleep(seconds)
            left[0] -= 1
            history.note_delivery("c", ["got", "p-0", "1", "audit", "0", "0", ""])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work, 9.0)
        assert await history.wait_done(lambda: left[0], 10.0)
    assert trio.current_time() == 45.0


async def test_who_does_not_go_on_is_given_up(mock_clock: MockClock):
    mock_clock.autojump_threshold = 0
    assert not await History().wait_done(lambda: 3, 10.0)
    assert trio.current_time() == 10.0
