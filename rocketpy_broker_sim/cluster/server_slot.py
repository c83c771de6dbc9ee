"""A slot of a cluster: the place of one server, which runs in a task of its own and can be stopped and restarted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from rocketpy.errors import ConfigError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

__all__ = ["ServerSlot"]

T = TypeVar("T")


class ServerSlot(Generic[T]):
    """The place of one server. Its settings, port and files stay the same from one run to the next.

    Args:
        name: the name for errors.
        opening: opens the server; called at each start.

    Attributes:
        is_running: whether it was started and has not stopped yet; true while it starts and while it stops.
        is_ready: whether the server is open, and no stop has begun.
    """

    def __init__(self, name: str, opening: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._name = name
        self._opening = opening
        self._server: T | None = None
        self._leave = trio.Event()
        self._left = trio.Event()
        self.is_running = False
        self.is_ready = False

    @property
    def server(self) -> T:
        """The server of the current run, or of the last one.

        Raises:
            ConfigError: it was never started.
        """
        if self._server is None:
            raise ConfigError(f"{self._name} has not been started")
        return self._server

    @property
    def running(self) -> T:
        """The server, while it is running.

        Raises:
            ConfigError: it is not running.
        """
        if not self.is_running:
            raise ConfigError(f"{self._name} is not running")
        return self.server

    async def start(self, services: trio.Nursery) -> T:
        """Open the server in a task of its own.

        Raises:
            ConfigError: it is already running.
            RocketMQError: opening it failed.
        """
        if self.is_running:
            raise ConfigError(f"{self._name} is already running")
        self.is_running = True
        self._leave, self._left = trio.Event(), trio.Event()
        await services.start(self._run)
        return self.server

    @trio.lowlevel.enable_ki_protection
    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        try:
            async with self._opening() as self._server:
                self.is_ready = True
                task_status.started()
                await self._leave.wait()
        finally:
            self.is_running = self.is_ready = False
            self._left.set()

    def leave(self) -> None:
        """Begin to stop. Does nothing if it is not running."""
        self.is_ready = False
        self._leave.set()

    async def stop(self) -> None:
        """Stop, and return when it has stopped.

        Raises:
            ConfigError: it is not running.
        """
        _ = self.running
        self.leave()
        await self.wait_left()

    async def wait_left(self) -> None:
        """Return when it is no longer running."""
        if self.is_running:
            await self._left.wait()
