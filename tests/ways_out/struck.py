"""An exception that strikes while something waits: out of a signal handler, or out of a task beside."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import trio

from tests.ways_out.scene import SLACK, SOON, Scene

__all__ = ["struck"]


async def struck(scene: Scene, work: Any, when: Callable[[], bool], error: BaseException, within: float) -> None:
    """Have the exception strike in the work: out of a signal handler, or out of a task beside."""
    try:
        if scene.surface.name == "blocking":
            await _struck_by_signal(work, when, error)
        elif scene.surface.name == "trio":
            await _struck_in_nursery(scene, work, when, error)
        else:
            await _struck_in_task_group(scene, work, when, error)
    except BaseException as caught:  # noqa: BLE001 - looked at below
        own = caught is error or (isinstance(caught, BaseExceptionGroup) and error in _leaves(caught))
        own = own or (isinstance(error, BaseExceptionGroup) and _leaves(error) <= _leaves(caught))
        scene.expect(own, f"{caught!r} came out instead of {error!r}")
    else:
        scene.wrong.append(f"{error!r} was swallowed")
    took = time.monotonic() - _STRUCK[-1]
    scene.expect(took < within + SLACK, f"it took {took:.1f} s to end instead of {within:g}")


_STRUCK = [0.0]


async def _struck_by_signal(work: Any, when: Callable[[], bool], error: BaseException) -> None:
    def handle(number: int, frame: object) -> None:
        _STRUCK.append(time.monotonic())
        raise error

    def watch() -> None:
        while not when():
            time.sleep(SOON)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, handle)
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        await work()
    finally:
        thread.join()
        signal.signal(signal.SIGTERM, before)


async def _struck_in_nursery(scene: Scene, work: Any, when: Callable[[], bool], error: BaseException) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await scene.until(when, "the moment of the exception")
        _STRUCK.append(time.monotonic())
        raise error


async def _struck_in_task_group(scene: Scene, work: Any, when: Callable[[], bool], error: BaseException) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(work())
        await scene.until(when, "the moment of the exception")
        _STRUCK.append(time.monotonic())
        raise error


def _leaves(error: BaseException) -> set[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return set().union(*map(_leaves, error.exceptions))
    return {error}
