"""Stacks: the stack traces of a consumer's threads and tasks as text, as Java's jstack shows them.

Each line names module, function, file and line number only: no values, no source code and no folders, so that nothing
secret is sent. The size is bounded.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import trio

__all__ = ["stacks_of"]

MOST_STACKS = 200
MOST_FRAMES = 64
MOST_CHARACTERS = 256 * 1024
_OURS = ("rocketpy.consumer.", "rocketpy.sync.listeners", "rocketpy.aio.listeners")


def stacks_of(nursery: trio.Nursery | None) -> str:
    """The stacks of the threads that work for consumers, this one included, and of the tasks below a nursery.

    Of tasks in other loops, such as asyncio's, only the running one shows, in the stack of its thread.
    """
    found: list[str] = []
    size = left_out = 0
    for stack in (*_threads(), *_tasks(nursery)):
        if len(found) >= MOST_STACKS or size + len(stack) > MOST_CHARACTERS:
            left_out += 1
            continue
        found.append(stack)
        size += len(stack)
    if left_out:
        found.append(f"{left_out} more are left out\n")
    return "\n".join(found)


def _threads() -> Iterator[str]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, innermost in sys._current_frames().items():
        frames = list(_outwards(innermost))
        if any(_module(frame).startswith(_OURS) for frame, _ in frames):
            yield _told(f"thread {names.get(ident, '?')} ({ident})", frames)


def _outwards(frame: FrameType | None) -> Iterator[tuple[FrameType, int]]:
    while frame is not None:
        yield frame, frame.f_lineno or 0
        frame = frame.f_back


def _tasks(nursery: trio.Nursery | None) -> Iterator[str]:
    waiting = list(nursery.child_tasks) if nursery is not None else []
    while waiting:
        task = waiting.pop()
        frames = list(task.iter_await_frames())
        yield _told(f"task {task.name}", reversed(frames))
        for inner in task.child_nurseries:
            waiting += inner.child_tasks


def _told(title: str, frames: Iterable[tuple[FrameType, int]]) -> str:
    lines = [title]
    for frame, number in frames:
        if len(lines) > MOST_FRAMES:
            lines.append("\t...")
            break
        code = frame.f_code
        lines.append(f"\tat {_module(frame)}.{code.co_qualname}({os.path.basename(code.co_filename)}:{number})")
    return "\n".join(lines) + "\n"


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "?"))
