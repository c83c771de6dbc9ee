"""A call that somebody else waits in while a block is left: another task of the loop, or another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from rocketpy.errors import RocketMQError
from tests.surfaces.surface import call
from tests.ways_out.scene import SLACK, SOON, OwnTasks, Scene

__all__ = ["Beside"]


class Beside(OwnTasks):
    """Makes one call, and keeps what becomes of it.

    Args:
        scene: the case.

    Attributes:
        outcome: what came of it, an answer or an error.
    """

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._ended = threading.Event()
        self.outcome: Any = None
        self._task: Any = None

    async def begin(self, function: Callable[[], Any], *, asks: bool = True) -> None:
        """Begin it; returns when its request has come to the proxy, or soon if it does not ask anything."""
        known = self._scene.place.proxy("requests")
        if self._scene.surface.name == "trio":
            self._tasks.start_soon(self._make, function)
        elif self._scene.surface.name == "asyncio":
            self._task = asyncio.ensure_future(self._make(function))
        else:
            threading.Thread(target=self._make_blocking, args=(function,), name="beside").start()
        if asks:
            await self._scene.until(lambda: self._scene.place.proxy("requests") > known, "the call waits")
        else:
            await self._scene.sleep(2 * SOON)

    async def _make(self, function: Callable[[], Any]) -> None:
        try:
            self.outcome = await call(function())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
            self.outcome = error
        finally:
            self._ended.set()

    def _make_blocking(self, function: Callable[[], Any]) -> None:
        try:
            self.outcome = function()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the outcome
            self.outcome = error
        finally:
            self._ended.set()

    async def check_ended(self) -> None:
        """It has ended by an answer, or was told why there is none."""
        if await self._scene.until(self._ended.is_set, "the call beside has ended", SLACK):
            outcome = self.outcome
            right = not isinstance(outcome, BaseException) or isinstance(outcome, RocketMQError)
            self._scene.expect(right, f"the call beside ended by {outcome!r}")
