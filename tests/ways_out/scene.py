"""What every case needs: where the servers are, an innocent beside, sends under way, what may be left at the end."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from types import TracebackType
from typing import Any, Self

import attrs
import trio

import rocketpy.sync
from rocketpy import ConsumeFromWhere, Message
from tests.pace import slowness
from tests.surfaces.surface import SURFACES, call
from tests.ways_out.ground import ask
from tests.ways_out.zygote import TOLD_SLOWNESS, say

SLOWNESS = float(os.environ.get(TOLD_SLOWNESS) or slowness())
"""Of this machine. Closing is bounded in seconds of the wall, so a slow machine gets as many more.

Cases are told what the test has measured: both go by the same bounds.
"""
SOON = 0.01
SLACK = 4.0 * SLOWNESS
"""Seconds that a busy machine may add to a bound."""
INNOCENT_WITHIN = 2.0 * SLOWNESS
LEFT_WITHIN = 3.0 * SLOWNESS
"""Seconds in which what was closed is gone: threads, and then connections."""
HEALS_AFTER = 0.7
EXIT_TIMEOUT = 0.4 * SLOWNESS
CLOSE_TIMEOUT = 0.4 * SLOWNESS
"""On a broker that answers, closing has to be done in this time: commits and unlocking are part of it."""
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


@attrs.frozen
class Place:
    """Where things are; told by the test."""

    namesrv: str
    broker: str
    broker_proxy: str
    name_server_proxy: str
    control: str
    topic: str
    group: str
    """Of the clients that leave; messages of the case begin with it."""

    @property
    def settings(self) -> dict[str, Any]:
        """Of clients that leave: they reach their broker through the proxy."""
        return {
            "namesrv": self.namesrv,
            "address_map": {self.broker: self.broker_proxy},
            "close_timeout": CLOSE_TIMEOUT,
        }

    def proxy(self, what: str, *args: Any) -> Any:
        """Ask the proxy of the broker."""
        return ask(self.control, what, self.broker_proxy, *args)

    def heal_soon(self) -> None:
        """Let the proxy go on in a moment, whatever this process does then."""
        ask(self.control, "later", HEALS_AFTER, "go_on", self.broker_proxy)


class Entered:
    """A client of any surface in one `async with`. A class, for a generator cannot be left by every exception."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    async def __aenter__(self) -> Any:
        if hasattr(self._thing, "__aenter__"):
            return await self._thing.__aenter__()
        return self._thing.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Any:
        if hasattr(self._thing, "__aexit__"):
            return await self._thing.__aexit__(kind, error, traceback)
        return self._thing.__exit__(kind, error, traceback)


class Scene:
    """One case: its surface, its place, and what was wrong."""

    def __init__(self, surface: str, place: dict[str, str]) -> None:
        self.surface = SURFACES[surface]
        self.module: Any = self.surface.module
        self.place = Place(**place)
        self.wrong: list[str] = []
        self.pid = os.getpid()

    def expect(self, right: bool, text: str) -> None:
        """Note what is wrong, and go on: the case shows all of it."""
        if not right:
            self.wrong.append(text)

    async def sleep(self, seconds: float) -> None:
        """As the surface sleeps."""
        if self.surface.name == "trio":
            await trio.sleep(seconds)
        elif self.surface.name == "asyncio":
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)  # noqa: ASYNC251 - blocking code

    async def until(self, condition: Any, what: str, seconds: float = 10.0) -> bool:
        """Wait until it holds; a case in which it does not cannot say anything."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                self.wrong.append(f"in {seconds:g} s not come about: {what}")
                return False
            await self.sleep(SOON)
        return True

    def producer(self, **settings: Any) -> Any:
        return self.module.Producer(self.place.group, **{**self.place.settings, **settings})

    def consumer(self, listener: Any, **settings: Any) -> Any:
        settings = {"consume_from_where": FIRST, **self.place.settings, **settings}
        made = self.module.PushConsumer(self.place.group, **settings)
        made.subscribe(self.place.topic, listener)
        return made

    def lite_consumer(self, **settings: Any) -> Any:
        settings = {"consume_from_where": FIRST, **self.place.settings, **settings}
        made = self.module.LitePullConsumer(self.place.group, **settings)
        made.subscribe(self.place.topic)
        return made

    def pull_consumer(self) -> Any:
        return self.module.PullConsumer(self.place.group, **self.place.settings)

    def admin(self, **settings: Any) -> Any:
        return self.module.Admin(**self.place.settings, **settings)

    def message(self, number: int) -> Message:
        return Message(self.place.topic, f"{self.place.group}/{number}".encode())

    async def held(self, producer: Any) -> None:
        """Have the producer send once, so that it is connected, and hold its broker then."""
        await call(producer.send(self.message(0)))
        self.place.proxy("hold")

    def check_left(self) -> None:
        """When everything is closed: no thread but that of the portal, no connection."""
        deadline = time.monotonic() + LEFT_WITHIN
        while (threads := left_threads()) and time.monotonic() < deadline:
            time.sleep(SOON)
        self.expect(not threads, f"threads are left: {threads}")
        deadline = time.monotonic() + LEFT_WITHIN
        while (links := self.place.proxy("connections")) and time.monotonic() < deadline:
            time.sleep(SOON)
        self.expect(not links, f"{links} connections are left")

    def report(self, **what: Any) -> None:
        """Say what was wrong, and what else the test is to know."""
        say(wrong=self.wrong, **what)


def left_threads() -> list[str]:
    """Threads that should not be there when everything is closed; trio keeps idle ones for a while."""
    names = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    return [name for name in names if name != "rocketpy-portal" and not name.startswith("Trio thread")]


class Innocent:
    """A producer of another client, which sends in a thread all the while and must notice nothing."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._producer = rocketpy.sync.Producer(f"{scene.place.group}-innocent", namesrv=scene.place.namesrv)
        self._message = Message("Innocent", b"x")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="innocent")
        self._slowest = 0.0

    def __enter__(self) -> Self:
        self._producer.start()
        self._producer.send(self._message)
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._stop.wait(SOON):
            self._send("during")

    def _send(self, when: str) -> None:
        began = time.monotonic()
        try:
            self._producer.send(self._message)
        except BaseException as error:  # noqa: BLE001 - the test is to hear of it
            self._scene.wrong.append(f"the innocent failed {when}: {error!r}")
            self._stop.set()
        self._slowest = max(self._slowest, time.monotonic() - began)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._send("afterwards")
        self._scene.expect(self._producer.is_open, "the innocent was closed")
        try:
            self._producer.close()
        except BaseException as failure:  # noqa: BLE001 - the test is to hear of it
            self._scene.wrong.append(f"the innocent did not close: {failure!r}")
        self._scene.expect(self._slowest < INNOCENT_WITHIN, f"the innocent waited {self._slowest:.1f} s")


class OwnTasks:
    """Begins tasks, on trio in a nursery of its own, which is cancelled when this is left."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._nursery: Any = None

    async def __aenter__(self) -> Self:
        if self._scene.surface.name == "trio":
            self._nursery = trio.open_nursery()
            self._tasks = await self._nursery.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._nursery is not None:
            self._tasks.cancel_scope.cancel()
            await self._nursery.__aexit__(kind, error, traceback)


class Sends(OwnTasks):
    """Sends that are under way, in the policy of the surface: `send_soon` and a thread, tasks, tasks of a nursery."""

    def __init__(self, scene: Scene, count: int) -> None:
        super().__init__(scene)
        self._count = count
        self.accepted: list[int] = []
        """Those that `send_soon` has accepted."""
        self._futures: dict[int, Any] = {}
        self._ended: dict[int, BaseException | None] = {}

    async def begin(self, producer: Any) -> None:
        """Begin them; returns when all have come to the proxy."""
        known = self._scene.place.proxy("sends")
        for number in range(1, self._count + 1):
            self._begin(producer, number)
        await self._scene.until(
            lambda: self._scene.place.proxy("sends") >= known + self._count, "the sends have come to the proxy"
        )

    def _begin(self, producer: Any, number: int) -> None:
        message = self._scene.message(number)
        if self._scene.surface.name == "trio":
            self._tasks.start_soon(self._send, producer, number)
        elif self._scene.surface.name == "asyncio":
            self._futures[number] = task = asyncio.ensure_future(producer.send(message))
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # somebody has looked
        elif number == self._count:
            threading.Thread(target=self._send_blocking, args=(producer, number), name="sends").start()
        else:
            self._futures[number] = producer.send_soon(message)
            self.accepted.append(number)

    async def _send(self, producer: Any, number: int) -> None:
        try:
            await producer.send(self._scene.message(number))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
            self._ended[number] = error
        else:
            self._ended[number] = None

    def _send_blocking(self, producer: Any, number: int) -> None:
        try:
            producer.send(self._scene.message(number))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the outcome
            self._ended[number] = error
        else:
            self._ended[number] = None

    async def outcomes(self) -> dict[int, BaseException | None]:
        """What became of each, None for those that are stored. Those without an answer are wrong."""
        await self._scene.until(self._is_over, "every send has ended", SLACK)
        for number, future in self._futures.items():
            if future.done():
                self._ended[number] = asyncio.CancelledError("cancelled") if future.cancelled() else future.exception()
        return self._ended

    def _is_over(self) -> bool:
        done = {number for number, future in self._futures.items() if future.done()}
        return len(self._ended.keys() | done) == self._count
