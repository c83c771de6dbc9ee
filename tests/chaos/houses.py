"""Houses: each surface has a thread in which producers are opened, used by lanes, and closed under their hands."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import trio

import rocketpy
import rocketpy.aio
import rocketpy.sync
from tests.chaos.book import Book
from tests.chaos.lanes import KINDS, SLACK, TIMEOUT, Lane
from tests.ways_out.scene import Entered

CLOSE_TIMEOUT = 1.0
CLOSES_WITHIN = TIMEOUT + CLOSE_TIMEOUT + SLACK
LANES_END_WITHIN = 2 * TIMEOUT + 2 * SLACK
LIFE = (3.0, 6.0)


class LeftByError(Exception):
    """Ends a block as an error of the user's does."""


class House(threading.Thread):
    """Of one surface.

    Args:
        book: where everything is written down.
        surface: its name.
        settings: of its producers.
        seed: for how long each producer lives.
        stop: set when nothing more is to be begun.
    """

    def __init__(self, book: Book, surface: str, settings: dict[str, Any], seed: int, stop: threading.Event) -> None:
        super().__init__(name=f"chaos-{surface}", daemon=True)
        self._book = book
        self._surface = surface
        self._settings = {**settings, "send_timeout": TIMEOUT, "close_timeout": CLOSE_TIMEOUT}
        self._chance = random.Random(f"{seed} {surface}")
        self._stop_event = stop
        self._lives = 0

    def run(self) -> None:
        """Live after life, in the loop of the surface."""
        try:
            if self._surface == "trio":
                trio.run(self._live_on)
            elif self._surface == "asyncio":
                asyncio.run(self._under_asyncio())
            else:
                _run_to_end(self._live_on())
        except BaseException as error:  # noqa: BLE001 - the run is to go on, and to say so
            self._book.note_strange(f"{self._surface}: the house has ended by {error!r}")

    async def _under_asyncio(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: self._book.note_strange(f"asyncio: {context}"))
        await self._live_on()
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            self._book.note_strange(f"asyncio: tasks are left: {left}")

    async def _live_on(self) -> None:
        while not self._stop_event.is_set():
            self._lives += 1
            lanes = [
                Lane(
                    self._book, self._surface, kind, f"{self._surface}-{self._lives}-{number}-{kind}", self._stop_event
                )
                for number, kind in enumerate(KINDS[self._surface])
            ]
            await self._live(lanes, self._chance.uniform(*LIFE), by_error=self._lives % 3 == 0)

    async def _live(self, lanes: list[Lane], seconds: float, *, by_error: bool) -> None:
        """Open a producer, let lanes use it, and close it while they do."""
        module: Any = {"trio": rocketpy, "asyncio": rocketpy.aio, "blocking": rocketpy.sync}[self._surface]
        producer = module.Producer(f"chaos-{self._surface}", **self._settings)
        end = time.monotonic() + seconds
        if self._surface == "trio":
            async with trio.open_nursery() as nursery:
                await self._hold(producer, lambda lane: nursery.start_soon(lane.run, producer), lanes, end, by_error)
                nursery.cancel_scope.deadline = trio.current_time() + LANES_END_WITHIN
            if nursery.cancel_scope.cancelled_caught:
                self._book.late.append("trio: lanes have not ended though their producer is closed")
        elif self._surface == "asyncio":
            tasks: list[asyncio.Task[None]] = []
            begin = lambda lane: tasks.append(asyncio.create_task(lane.run(producer)))  # noqa: E731 - it is that short
            await self._hold(producer, begin, lanes, end, by_error)
            _, left = await asyncio.wait(tasks, timeout=LANES_END_WITHIN)
            if left:
                self._book.late.append(f"asyncio: {len(left)} lanes have not ended though their producer is closed")
            for task in tasks:
                if task.done() and not task.cancelled() and task.exception() is not None:
                    self._book.note_strange(f"asyncio: a lane has ended by {task.exception()!r}")
        else:
            threads: list[threading.Thread] = []
            await self._hold(producer, lambda lane: threads.append(self._thread(lane, producer)), lanes, end, by_error)
            for thread in threads:
                thread.join(LANES_END_WITHIN)
            if any(thread.is_alive() for thread in threads):
                self._book.late.append("blocking: lanes have not ended though their producer is closed")

    async def _hold(
        self, producer: Any, begin: Callable[[Lane], object], lanes: list[Lane], end: float, by_error: bool
    ) -> None:
        closed_from = 0.0
        began = time.monotonic()
        try:
            async with Entered(producer):
                self._book.note_call(f"{self._surface} start", time.monotonic() - began, SLACK)
                for lane in lanes:
                    begin(lane)
                while time.monotonic() < end and not self._stop_event.is_set():
                    await self._sleep(0.05)
                closed_from = time.monotonic()
                if by_error:
                    raise LeftByError
        except LeftByError:
            pass
        except Exception as failure:  # noqa: BLE001 - the run is to go on, and to say so
            what = "closing" if closed_from else "starting"
            self._book.note_strange(f"{self._surface}: {what} a producer raised {failure!r}")
        self._book.note_call(f"{self._surface} close", time.monotonic() - closed_from, CLOSES_WITHIN)

    async def _sleep(self, seconds: float) -> None:
        if self._surface == "trio":
            await trio.sleep(seconds)
        elif self._surface == "asyncio":
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)  # noqa: ASYNC251 - blocking code

    def _thread(self, lane: Lane, producer: Any) -> threading.Thread:
        def run() -> None:
            try:
                _run_to_end(lane.run(producer))
            except BaseException as error:  # noqa: BLE001 - the run is to go on, and to say so
                self._book.note_strange(f"blocking: a lane has ended by {error!r}")

        thread = threading.Thread(target=run, name="chaos-lane", daemon=True)
        thread.start()
        return thread


def _run_to_end(coroutine: Any) -> None:
    """Blocking code has nothing to await."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("blocking code has nothing to await")
