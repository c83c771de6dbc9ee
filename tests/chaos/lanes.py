"""Lanes: each sends in one way, one call after the other, until its producer is closed."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from rocketpy import Message, SendStatus
from rocketpy.errors import ClientClosedError, RocketMQError
from tests.chaos.book import Book, Sent
from tests.surfaces.surface import call

TOPIC = "Chaos"
TIMEOUT = 4.0
"""Seconds that each call is given."""
SLACK = 6.0
"""Seconds in which a busy machine comes to the end of a call that is over."""
PAUSE = 0.05
AFTER_FAILURE = 0.1
AT_ONCE = 8
MANY, BATCH_SIZE, BATCH = 60, 10, 4


class Lane:
    """One way to send with one producer.

    Args:
        book: where everything is written down.
        surface: its name.
        kind: what kind of lane.
        name: unique; messages and sharding keys begin with it.
        stop: set when nothing more is to be begun.
    """

    def __init__(self, book: Book, surface: str, kind: str, name: str, stop: threading.Event) -> None:
        self._book = book
        self._surface = surface
        self._name = name
        self._stop = stop
        self._numbers = itertools.count()
        self._kind = kind

    async def run(self, producer: Any) -> None:
        """Send until it is told to stop, or the producer is closed."""
        step: Callable[[Any], Awaitable[bool]] = getattr(self, f"_{self._kind}")
        while not self._stop.is_set():
            try:
                stored = await step(producer)
            except ClientClosedError:
                if not producer.is_open:
                    return
                stored = False
            await self._sleep(PAUSE if stored else AFTER_FAILURE)

    async def _sleep(self, seconds: float) -> None:
        if self._surface == "trio":
            await trio.sleep(seconds)
        elif self._surface == "asyncio":
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)  # noqa: ASYNC251 - blocking code

    def _bodies(self, count: int) -> list[str]:
        return [f"{self._name}/{next(self._numbers)}" for _ in range(count)]

    def _message(self, message: Sent) -> Message:
        return Message(TOPIC, message.body.encode(), sharding_key=message.key)

    def _begin(self, count: int = 1, *, keyed: bool = False) -> list[Sent]:
        return self._book.begin(self._bodies(count), self._surface, self._name if keyed else None)

    def _judge(self, messages: list[Sent], outcome: Any) -> bool:
        """Write down what came of a call; whether it is stored. Without an outcome they stay under way."""
        if outcome is None:
            self._book.late.append(f"{self._surface}: a future has no answer after its deadline")
            return False
        if isinstance(outcome, BaseException):
            self._book.fail(messages, outcome)
            if not isinstance(outcome, RocketMQError):
                self._book.note_strange(f"{self._surface}: a send ended with {outcome!r}")
            if isinstance(outcome, ClientClosedError):
                raise outcome
            return False
        if getattr(outcome, "status", SendStatus.SEND_OK) is SendStatus.SEND_OK:
            self._book.acknowledge(messages)
            return True
        self._book.fail(messages, RuntimeError(repr(outcome)))
        return False

    async def _ask(self, what: str, messages: list[Sent], answer: Callable[[], Any], within: float = TIMEOUT) -> bool:
        """Make a call that has a deadline."""
        outcome: Any
        with self._book.timed(f"{self._surface} {what}", within + SLACK):
            try:
                outcome = await call(answer())
            except Exception as error:  # noqa: BLE001 - judged below
                outcome = error
        return self._judge(messages, outcome)

    # --- kinds ----------------------------------------------------------------------------------------------

    async def _plain(self, producer: Any) -> bool:
        (sent,) = messages = self._begin()
        return await self._ask("send", messages, lambda: producer.send(self._message(sent), timeout=TIMEOUT))

    async def _keyed(self, producer: Any) -> bool:
        (sent,) = messages = self._begin(keyed=True)
        return await self._ask("send", messages, lambda: producer.send(self._message(sent), timeout=TIMEOUT))

    async def _batch(self, producer: Any) -> bool:
        messages = self._begin(BATCH)
        batch = [self._message(each) for each in messages]
        return await self._ask("send_batch", messages, lambda: producer.send_batch(batch, timeout=TIMEOUT))

    async def _many(self, producer: Any) -> bool:
        """Frames fail by themselves; all others are acknowledged."""
        messages = self._begin(MANY)
        failures: list[Any] = []

        def answer() -> Any:
            given = (self._message(each) for each in messages)
            return producer.send_many(given, batch_size=BATCH_SIZE, timeout=TIMEOUT, on_failure=failures.append)

        with self._book.timed(f"{self._surface} send_many", 2 * TIMEOUT + SLACK):
            try:
                await call(answer())
            except RocketMQError as error:
                self._book.fail(messages, error)
                if isinstance(error, ClientClosedError):
                    raise
                return False
        failed = {number for error in failures for number in range(error.first, error.last + 1)}
        if failures:
            self._book.fail([messages[number] for number in sorted(failed)], failures[0])
        self._book.acknowledge([each for number, each in enumerate(messages) if number not in failed])
        return not failed

    async def _gathered(self, producer: Any) -> bool:
        """Keyed sends of asyncio that are begun together."""
        messages = self._begin(AT_ONCE, keyed=True)
        with self._book.timed("asyncio gathered sends", TIMEOUT + SLACK):
            sends = (producer.send(self._message(each), timeout=TIMEOUT) for each in messages)
            outcomes = await asyncio.gather(*sends, return_exceptions=True)
        return self._all(messages, outcomes)

    async def _soon(self, producer: Any) -> bool:
        return self._sent_soon(producer, self._begin(AT_ONCE))

    async def _soon_keyed(self, producer: Any) -> bool:
        return self._sent_soon(producer, self._begin(AT_ONCE, keyed=True))

    def _sent_soon(self, producer: Any, messages: list[Sent]) -> bool:
        """Blocking `send_soon`, several before the first future is looked at."""
        futures: list[Any] = []
        refused: RocketMQError | None = None
        for each in messages:
            with self._book.timed("send_soon", TIMEOUT + SLACK):
                try:
                    futures.append(producer.send_soon(self._message(each), timeout=TIMEOUT))
                except RocketMQError as error:
                    refused = error
                    self._book.fail(messages[len(futures) :], error)
                    break
        deadline = time.monotonic() + TIMEOUT + SLACK
        outcomes = []
        for future in futures:
            try:
                outcomes.append(future.result(max(0.0, deadline - time.monotonic())))
            except BaseException as error:  # noqa: BLE001 - judged below
                outcomes.append(error if future.done() else None)
        stored = self._all(messages[: len(futures)], outcomes)
        if isinstance(refused, ClientClosedError):
            raise refused
        return stored and refused is None

    def _all(self, messages: list[Sent], outcomes: list[Any]) -> bool:
        closed = None
        stored = True
        for message, outcome in zip(messages, outcomes, strict=True):
            try:
                stored = self._judge([message], outcome) and stored
            except ClientClosedError as error:
                closed = error
        if closed is not None:
            raise closed
        return stored


KINDS = {
    "trio": ("plain", "plain", "keyed", "keyed", "batch", "many"),
    "asyncio": ("plain", "plain", "keyed", "gathered", "gathered", "batch", "many"),
    "blocking": ("plain", "plain", "keyed", "keyed", "batch", "many", "soon", "soon_keyed", "soon_keyed"),
}
