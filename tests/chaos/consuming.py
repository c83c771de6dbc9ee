"""Consumers of all three surfaces, which live through the whole run and write down what they get."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import trio

import rocketpy
import rocketpy.aio
import rocketpy.sync
from rocketpy import ConsumeFromWhere
from rocketpy.errors import RocketMQError
from tests.chaos.book import Book
from tests.chaos.lanes import SLACK, TOPIC

GROUPS = {"trio": "chaos-of-trio", "asyncio": "chaos-of-asyncio", "blocking": "chaos-of-blocking"}
AWAIT_TERMINATION, CLOSE_TIMEOUT = 3.0, 1.0
CLOSES_WITHIN = AWAIT_TERMINATION + 2 * CLOSE_TIMEOUT + SLACK
AGAIN_AFTER = 0.5
LOOK = 0.05


class Consuming(threading.Thread):
    """One consumer of a surface, in a thread of its own.

    Args:
        book: where everything is written down.
        surface: its name.
        settings: how it reaches the brokers.
        stop: set when it shall close.
    """

    def __init__(self, book: Book, surface: str, settings: dict[str, Any], stop: threading.Event) -> None:
        super().__init__(name=f"chaos-consumer-{surface}", daemon=True)
        self._book = book
        self._surface = surface
        self._settings = {
            **settings,
            "consume_from_where": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            "await_termination": AWAIT_TERMINATION,
            "close_timeout": CLOSE_TIMEOUT,
            "pull_time_delay_when_exception": 0.5,
            "rebalance_interval": 2.0,
            "persist_consumer_offset_interval": 1.0,
            "poll_name_server_interval": 2.0,
        }
        self._stop_event = stop

    def run(self) -> None:
        """Consume until it is told to stop."""
        try:
            if self._surface == "trio":
                trio.run(self._in_loop, rocketpy.PushConsumer, trio.sleep)
            elif self._surface == "asyncio":
                asyncio.run(self._in_loop(rocketpy.aio.PushConsumer, asyncio.sleep))
            else:
                self._blocking()
        except BaseException as error:  # noqa: BLE001 - the run is to go on, and to say so
            self._book.note_strange(f"the consumer of {self._surface} has ended by {error!r}")

    def _made(self, kind: Any, listener: Callable[[Any], object]) -> Any:
        consumer = kind(GROUPS[self._surface], **self._settings)
        consumer.subscribe(TOPIC, listener)
        return consumer

    def _take(self, message: Any) -> None:
        self._book.deliver(GROUPS[self._surface], message.body.decode())

    async def _take_async(self, message: Any) -> None:
        self._take(message)

    @contextmanager
    def _closing(self) -> Any:
        with self._book.timed(f"{self._surface} consumer close", CLOSES_WITHIN):
            yield

    async def _in_loop(self, kind: Any, sleep: Callable[[float], Any]) -> None:
        while not self._stop_event.is_set():
            consumer = self._made(kind, self._take_async)
            try:
                await consumer.__aenter__()
            except RocketMQError as error:
                self._book.errors[f"start: {type(error).__name__}"] += 1
                await sleep(AGAIN_AFTER)
                continue
            while not self._stop_event.is_set():
                await sleep(LOOK)
            with self._closing():
                await consumer.__aexit__(None, None, None)

    def _blocking(self) -> None:
        while not self._stop_event.is_set():
            consumer = self._made(rocketpy.sync.PushConsumer, self._take)
            try:
                consumer.start()
            except RocketMQError as error:
                self._book.errors[f"start: {type(error).__name__}"] += 1
                self._stop_event.wait(AGAIN_AFTER)
                continue
            self._stop_event.wait()
            with self._closing():
                consumer.close()
