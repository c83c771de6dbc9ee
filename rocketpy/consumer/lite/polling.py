"""Polling: hands out the messages that a lite pull consumer has pulled. Plays the part of poll."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import trio

from rocketpy.client.arguments import checked_count, checked_seconds
from rocketpy.errors import ConfigError

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.config import LitePullConsumerConfig
    from rocketpy.consumer.current import Current
    from rocketpy.consumer.lite.access import Access
    from rocketpy.consumer.lite.cache import Part
    from rocketpy.consumer.lite.running import RunningLitePull
    from rocketpy.consumer.lite.selection import Selection

__all__ = ["MOST_MESSAGES", "Polling"]

MOST_MESSAGES = 1_000_000
"""What one poll may ask for."""


class Polling:
    """The polls of one consumer.

    Args:
        current: the running part of the consumer.
        access: gives it, if it may be used.
        config: has what is meant where a poll says nothing.
        selection: has what the consumer subscribes to.
    """

    def __init__(
        self,
        current: Current[RunningLitePull],
        access: Access,
        config: LitePullConsumerConfig,
        selection: Selection,
    ) -> None:
        self._current = current
        self._access = access
        self._config = config
        self._selection = selection

    async def lend(self, max_messages: int | None, timeout: float | timedelta | None) -> list[Part]:
        """What `poll` gives, in parts, for surfaces that may have to give some of it back. Raises what it raises."""
        most = self._config.pull_batch_size
        if max_messages is not None:
            most = checked_count("max_messages", max_messages, MOST_MESSAGES)
        patience = self._config.poll_timeout if timeout is None else checked_seconds("timeout", timeout)
        running = self._access.usable()
        self._current.lifecycle.check_open()
        await trio.lowlevel.checkpoint()
        # No checkpoint lies between taking messages and giving them.
        running.cache.polled()
        parts = running.cache.take(most)
        if not parts:
            with trio.move_on_after(patience):
                while not parts:
                    self._check_may_arrive(running)
                    await running.cache.arrival.wait()
                    parts = running.cache.take(most)
        if running.tracer is not None:
            for part in parts:
                running.tracer.polled(part.messages)
        return parts

    def give_back(self, parts: Iterable[Part]) -> None:
        """Take back what was lent and has reached nobody: it is handed out next."""
        if self._current.running is not None:
            self._current.running.cache.give_back(parts)

    def _check_may_arrive(self, running: RunningLitePull) -> None:
        """Refuse to wait for messages that cannot come."""
        if running.closing and self._current.crash is None:
            self._current.lifecycle.check_open()
            running.client.check_open()
        self._access.usable()
        if not self._selection.topics:
            raise ConfigError("nothing is subscribed or assigned: call subscribe(topic) or assign(queues) first")
        running.cache.check_refused()
