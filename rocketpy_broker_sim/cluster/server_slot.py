"""A slot of a cluster: where one server runs, which can stop and run again, in a task of the cluster's own."""

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
    """Where one server runs; its settings, port and files outlive each run.

    Args:
        name: what it is called in errors.
        opening: opens the server; called at each start.

    Attributes:
        is_running: whether it has been started and not stopped; it may still be on its way to either.
        is_ready: whether the server is open, and nobody has begun to stop it.
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
        """The server of the present run, or of the last one.

        Raises:
            ConfigError: it has never run.
        """
        if self._server is None:
            raise ConfigError(f"{self._name} has not been started")
        return self._server

    @property
    def running(self) -> T:
        """The server, as long as it runs.

        Raises:
            ConfigError: it does not run.
        """
        if not self.is_running:
            raise ConfigError(f"{self._name} does not run")
        return self.server

    async def start(self, services: trio.Nursery) -> T:
        """Open the server in a task of its own.

        Raises:
            ConfigError: it runs already.
            RocketMQError: what opening it met.
        """
        if self.is_running:
            raise ConfigError(f"{self._name} runs already")
        self.is_running = True
        self._leave, self._left = trio.Event(), trio.Event()
        await services.start(self._run)
        return self.server

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
        """Begin to stop; nothing happens when it does not run."""
        self.is_ready = False
        self._leave.set()

    async def stop(self) -> None:
        """Stop, and return when it has stopped.

        Raises:
            ConfigError: it does not run.
        """
        _ = self.running
        self.leave()
        await self.wait_left()

    async def wait_left(self) -> None:
        """Return when it does not run."""
        if self.is_running:
            await self._left.wait()
