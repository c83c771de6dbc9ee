"""QueueWatch: calls functions of the user's when the queues of a topic change.

Plays the part of fetchTopicMessageQueuesAndCompare and TopicMessageQueueChangeListener.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import trio

from rocketpy.consumer.listeners import let_pass
from rocketpy.errors import ConfigError
from rocketpy.logs import get_logger

if TYPE_CHECKING:
    from rocketpy.client.routes.routing import RouteTable
    from rocketpy.consumer.user_calls import UserCalls
    from rocketpy.message import MessageQueue

__all__ = ["QueueWatch", "QueuesFunction"]

logger = get_logger(__name__)

QueuesFunction: TypeAlias = Callable[[str, "tuple[MessageQueue, ...]"], Any]
"""A plain or async function of a topic and its queues."""


class QueueWatch:
    """The functions of one consumer, one for each topic. They are called one at a time."""

    def __init__(self) -> None:
        self._functions: dict[str, QueuesFunction] = {}
        self._last_queues: dict[str, tuple[MessageQueue, ...] | None] = {}
        self._changed = trio.Event()

    def add(self, topic: str, function: QueuesFunction) -> None:
        """Call a function when the queues of a topic change. It replaces the topic's previous function.

        Raises:
            ConfigError: it cannot be called with a topic and its queues.
        """
        if not callable(function):
            raise ConfigError(f"on_queues_changed needs a function for {topic}, not {function!r:.100}")
        try:
            inspect.signature(function).bind(topic, ())
        except TypeError as exc:
            raise ConfigError(f"{function!r:.100} must take two arguments, the topic and its queues: {exc}") from exc
        except ValueError:
            pass  # functions written in C may have no signature
        self._functions[topic] = function

    def adopt(self, others: QueueWatch) -> None:
        """Take over the functions of a consumer that this one's replaces."""
        self._functions = dict(others._functions)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are watched."""
        return tuple(self._functions)

    def look(self) -> None:
        """Look at the queues again: routes, or the watched topics, may have changed."""
        self._changed.set()

    async def run(self, routes: RouteTable, calls: UserCalls) -> None:
        """Run the service. The queues that a topic has at the first look are not a change.

        Args:
            routes: has the queues of each topic.
            calls: calls the functions.
        """
        while True:
            for topic in self.topics:
                queues = routes.subscribe_queues(topic)
                if topic not in self._last_queues:
                    self._last_queues[topic] = queues
                elif queues is not None and queues != self._last_queues[topic]:
                    self._last_queues[topic] = queues
                    await self._tell(calls, topic, queues)
            await self._changed.wait()
            self._changed = trio.Event()

    async def _tell(self, calls: UserCalls, topic: str, queues: tuple[MessageQueue, ...]) -> None:
        task = trio.lowlevel.current_task()
        try:
            await calls.call(self._functions[topic], topic, queues)
        except BaseException as error:  # the user's function may raise anything, SystemExit included
            let_pass(error, task)
            logger.error("the function given to on_queues_changed for %s failed", topic, exc_info=error)
