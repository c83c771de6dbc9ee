"""Cases: whole programs on trio and asyncio that end, are told to end, fork, or forget what they have started."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import trio

import rocketpy.sync
from rocketpy import Message, MessageModel, MessageQueue
from rocketpy.errors import RocketMQError
from tests.ways_out.beside import Beside
from tests.ways_out.blocks import COUNT
from tests.ways_out.forked import forked, socket_names
from tests.ways_out.ground import ask
from tests.ways_out.programs import FORGOTTEN_FOR, LISTENER_TAKES, LONG, STATUS
from tests.ways_out.scene import SLACK, SOON, Scene, Sends
from tests.ways_out.zygote import say

KEPT: list[Any] = []
"""What outlives the loop, until the interpreter ends."""


def run(surface: str, state: str, way: str, place: dict[str, str]) -> None:
    """The case; it returns, or ends as a program does."""
    program = Program(Scene(surface, place), way)
    run_program(program, getattr(program, state.replace(" ", "_")))


def run_program(program: Program, main: Callable[[], Awaitable[None]]) -> None:
    """Run one in a loop of its surface."""
    if program.scene.surface.name == "trio":
        try:
            trio.run(program.under_trio, main)
        except BaseExceptionGroup as group:
            raise _innermost(group) from None
    else:
        asyncio.run(program.under_asyncio(main), debug=True)


class Program:
    """One program; each state of it is a method."""

    def __init__(self, scene: Scene, way: str) -> None:
        self.scene = scene
        self.way = way
        self._told: Any = None
        self._cancel: Callable[[], object] = lambda: None

    # --- signals --------------------------------------------------------------------------------------------

    async def under_trio(self, main: Callable[[], Awaitable[None]]) -> None:
        """A signal is received by a task, which sets the event and cancels what cannot look at it, or raises."""
        self._told = trio.Event()
        with trio.open_signal_receiver(signal.SIGTERM) as signals:
            async with trio.open_nursery() as nursery:

                async def watch() -> None:
                    async for _ in signals:
                        if self.way == "SIGTERM raises":
                            raise SystemExit(STATUS)
                        self._told.set()
                        self._cancel()

                nursery.start_soon(watch)
                await main()
                nursery.cancel_scope.cancel()

    async def under_asyncio(self, main: Callable[[], Awaitable[None]]) -> None:
        """A handler raises as one of blocking code does, or the loop has a handler of its own."""
        self._told = asyncio.Event()

        def tell() -> None:
            self._told.set()
            self._cancel()

        def handle(number: int, frame: object) -> None:
            raise SystemExit(STATUS)

        if self.way == "SIGTERM raises":
            signal.signal(signal.SIGTERM, handle)
        else:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, tell)
        await main()

    def _strike(self, when: Callable[[], bool] = lambda: True) -> None:
        def watch() -> None:
            while not when():
                time.sleep(0.01)
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=watch, daemon=True).start()

    # --- states ---------------------------------------------------------------------------------------------

    async def starting(self) -> None:
        place = self.scene.place
        ask(place.control, "hold", place.name_server_proxy)
        consumer = self.scene.consumer(lambda message: None, namesrv=place.name_server_proxy, request_timeout=LONG)
        self._strike(lambda: ask(place.control, "requests", place.name_server_proxy) > 0)
        await self._cancellable(consumer.__aenter__)

    async def closing(self) -> None:
        async def close() -> None:
            async with self.scene.producer() as producer:
                await self.scene.held(producer)
                known = self.scene.place.proxy("requests")
                self._strike(lambda: self.scene.place.proxy("requests") > known)

        await self._cancellable(close)

    async def closing_in_order(self) -> None:
        """Nobody takes its commit, or unlocks its queues."""
        got: list[Any] = []

        async def close() -> None:
            async with self.scene.consumer(got.append, orderly=True):
                await self.scene.until(lambda: got, "the message is consumed")
                self.scene.place.proxy("hold")
                known = self.scene.place.proxy("requests")
                self._strike(lambda: self.scene.place.proxy("requests") > known)

        await self._cancellable(close)

    async def idle(self) -> None:
        producer = self.scene.producer()

        async def work() -> None:
            await producer.send(self.scene.message(0))
            say(acknowledged=[0])

        await self.live(producer, work)

    async def sends_in_flight(self) -> None:
        producer = self.scene.producer(send_timeout=LONG)
        async with Sends(self.scene, COUNT) as sends:

            async def work() -> None:
                await self.scene.held(producer)
                await sends.begin(producer)
                self.scene.place.heal_soon()

            await self.live(producer, work)
            ended = await sends.outcomes()
            unexpected = [repr(each) for each in ended.values() if not isinstance(each, RocketMQError | None)]
            stored = [0, *(number for number, outcome in ended.items() if outcome is None)]
            say(acknowledged=stored, wrong=[*self.scene.wrong, *unexpected])

    async def listener_running(self, **settings: Any) -> None:
        begun: list[Any] = []

        async def listener(message: Any) -> None:
            begun.append(message)
            await self.scene.sleep(LISTENER_TAKES)
            say(finished=1)

        async def work() -> None:
            await self.scene.until(lambda: begun, "the listener has begun")

        await self.live(self.scene.consumer(listener, await_termination=SLACK, **settings), work)

    async def listening_in_order(self) -> None:
        await self.listener_running(orderly=True)

    async def listening_to_a_broadcast(self) -> None:
        await self.listener_running(message_model=MessageModel.BROADCASTING)

    async def polling(self) -> None:
        consumer = self.scene.lite_consumer()

        async def work() -> None:
            say(finished=len(await consumer.poll(1, timeout=10)))

        await self.live(consumer, work)

    async def pulling(self) -> None:
        """Another task waits in a request that the broker holds, until it is told why it ends."""
        consumer = self.scene.pull_consumer()
        queue = MessageQueue(self.scene.place.topic, "broker-a", 0)

        async def work() -> None:
            await consumer.pull(queue, 0)
            await beside.begin(lambda: consumer.pull_block_if_not_found(queue, 1))

        async with Beside(self.scene) as beside:
            await self.live(consumer, work)
            await beside.check_ended()
        say(wrong=self.scene.wrong)

    # --- ways -----------------------------------------------------------------------------------------------

    async def live(self, thing: Any, work: Callable[[], Awaitable[None]]) -> None:
        if self.way in ("end", "forgotten"):
            await thing.__aenter__()
            await work()
            if self.way == "end":
                KEPT.append(thing)
                return
            _forget(thing)
            gc.collect()
            deadline = time.monotonic() + FORGOTTEN_FOR
            while self.scene.place.proxy("connections") and time.monotonic() < deadline:
                await self.scene.sleep(SOON)
            return
        async with thing:
            await work()
            if self.way == "sys.exit":
                sys.exit(STATUS)
            elif self.way == "fork":
                forked(self.scene, lambda: self._in_child(thing), leave=True)
            else:
                self._strike()
                await self._told.wait()
        say(closed=True)

    async def _cancellable(self, function: Callable[[], Awaitable[Any]]) -> None:
        """Wait for something that a signal may cancel."""
        if self.scene.surface.name == "trio":
            with trio.CancelScope() as scope:
                self._cancel = scope.cancel
                await function()
        else:
            task = asyncio.ensure_future(function())
            self._cancel = task.cancel
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is not None:
                raise task.exception()
        say(closed=True)

    def _in_child(self, thing: Any) -> dict[str, Any]:
        """What a child finds of what its parent had open, and whether it can have one of its own."""
        told = "nothing"
        if hasattr(thing, "send"):
            step = thing.send(self.scene.message(0))
        elif hasattr(thing, "use"):
            step = thing.use()
        elif hasattr(thing, "wait_assigned"):
            step = thing.wait_assigned(1)
        else:
            step = thing.fetch_message_queues(self.scene.place.topic)
        try:
            step.send(None)
        except RocketMQError as error:
            told = f"{type(error).__name__}: {error}"
        inherited = socket_names(self.scene.place)
        with rocketpy.sync.Producer("child", namesrv=self.scene.place.namesrv) as producer:
            status = producer.send(Message("Innocent", b"child")).status.name
        return {"told": told, "inherited": inherited, "sent": status}


def _forget(thing: Any) -> None:
    """Nobody refers to it any more: closures of the callers are emptied here."""
    for referrer in gc.get_referrers(thing):
        if type(referrer).__name__ == "cell":
            del referrer.cell_contents


def _innermost(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Trio wraps what a task raises; a program that wants its exit status takes it out, where there is nothing else."""
    if len(group.exceptions) > 1:
        return group
    (only,) = group.exceptions
    return _innermost(only) if isinstance(only, BaseExceptionGroup) else only
