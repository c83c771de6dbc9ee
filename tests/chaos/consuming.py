"""Consumers of all three surfaces, which live through the whole run and write down what they get."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio

import rocketpy
import rocketpy.aio
import rocketpy.sync
from rocketpy import ConsumeFromWhere, MessageModel
from rocketpy.errors import RocketMQError
from tests.chaos.book import Book
from tests.chaos.lanes import SLACK, TOPIC
from tests.chaos.ways import GROUPS, Way

AWAIT_TERMINATION, CLOSE_TIMEOUT = 3.0, 1.0
CLOSES_WITHIN = AWAIT_TERMINATION + 2 * CLOSE_TIMEOUT + SLACK
AGAIN_AFTER = 0.5
LOOK = 0.05
POLLS_WITHIN = LOOK + SLACK


class Consuming(threading.Thread):
    """One consumer of a surface, in a thread of its own.

    Args:
        book: where everything is written down.
        surface: its name.
        way: how it consumes.
        settings: how it reaches the brokers.
        folder: for offset files.
        stop: set when it shall close.
    """

    def __init__(
        self, book: Book, surface: str, way: Way, settings: dict[str, Any], folder: Path, stop: threading.Event
    ) -> None:
        super().__init__(name=f"chaos-consumer-{surface}", daemon=True)
        self._book = book
        self._surface = surface
        self._group = GROUPS[surface]
        self._way = way
        own: dict[Way, dict[str, Any]] = {
            Way.CONCURRENT: {"await_termination": AWAIT_TERMINATION},
            Way.ORDERLY: {"await_termination": AWAIT_TERMINATION, "orderly": True},
            Way.POLLED: {"auto_commit_interval": 1.0},
            Way.BROADCAST: {
                "await_termination": AWAIT_TERMINATION,
                "message_model": MessageModel.BROADCASTING,
                "local_offset_store_dir": folder,
            },
        }
        self._settings = {
            **settings,
            "consume_from_where": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            "close_timeout": CLOSE_TIMEOUT,
            "pull_time_delay_when_exception": 0.5,
            "rebalance_interval": 2.0,
            "persist_consumer_offset_interval": 1.0,
            "poll_name_server_interval": 2.0,
            **own[way],
        }
        self._stop_event = stop

    def run(self) -> None:
        """Consume until it is told to stop."""
        try:
            if self._surface == "trio":
                trio.run(self._in_loop, rocketpy, trio.sleep)
            elif self._surface == "asyncio":
                asyncio.run(self._in_loop(rocketpy.aio, asyncio.sleep))
            else:
                self._blocking()
        except BaseException as error:  # noqa: BLE001 - the run is to go on, and to say so
            self._book.note_strange(f"the consumer of {self._surface} has ended by {error!r}")

    def _made(self, module: Any, listener: Callable[[Any], object]) -> Any:
        if self._way is Way.POLLED:
            consumer = module.LitePullConsumer(self._group, **self._settings)
            consumer.subscribe(TOPIC)
        else:
            consumer = module.PushConsumer(self._group, **self._settings)
            consumer.subscribe(TOPIC, listener)
        return consumer

    def _take(self, message: Any) -> None:
        with self._book.delivering(self._group, message):
            pass

    def _note_failed_start(self, error: RocketMQError) -> None:
        self._book.errors[f"start: {type(error).__name__}"] += 1

    @contextmanager
    def _timed(self, what: str, within: float) -> Any:
        with self._book.timed(f"{self._surface} consumer {what}", within):
            yield

    # --- with an event loop ---------------------------------------------------------------------------------

    async def _in_loop(self, module: Any, sleep: Callable[[float], Any]) -> None:
        async def take(message: Any) -> None:
            with self._book.delivering(self._group, message):
                await sleep(0)

        while not self._stop_event.is_set():
            consumer = self._made(module, take)
            try:
                await consumer.__aenter__()
            except RocketMQError as error:
                self._note_failed_start(error)
                await sleep(AGAIN_AFTER)
                continue
            while not self._stop_event.is_set():
                await (self._poll_in_loop(consumer) if self._way is Way.POLLED else sleep(LOOK))
            with self._timed("close", CLOSES_WITHIN):
                await consumer.__aexit__(None, None, None)

    async def _poll_in_loop(self, consumer: Any) -> None:
        with self._timed("poll", POLLS_WITHIN):
            found = await consumer.poll(timeout=LOOK)
        for message in found:
            self._take(message)
            consumer.ack(message)

    # --- without --------------------------------------------------------------------------------------------

    def _blocking(self) -> None:
        while not self._stop_event.is_set():
            consumer = self._made(rocketpy.sync, self._take)
            try:
                consumer.start()
            except RocketMQError as error:
                self._note_failed_start(error)
                self._stop_event.wait(AGAIN_AFTER)
                continue
            while self._way is Way.POLLED and not self._stop_event.is_set():
                self._poll(consumer)
            self._stop_event.wait()
            with self._timed("close", CLOSES_WITHIN):
                consumer.close()

    def _poll(self, consumer: Any) -> None:
        with self._timed("poll", POLLS_WITHIN):
            found = consumer.poll(timeout=LOOK)
        for message in found:
            self._take(message)
            consumer.ack(message)
