"""Messages that the other surfaces have fetched ahead for loops, and give back before they do anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from rocketpy.consumer.lite.cache import Part

if TYPE_CHECKING:
    from collections import deque

    from rocketpy.consumer.process_queue import ProcessQueue
    from rocketpy.message import MessageExt

__all__ = ["Rest", "as_parts"]

Rest: TypeAlias = "deque[tuple[ProcessQueue, MessageExt]]"
"""Messages that were lent and that no code of the user's has seen yet, in order."""


def as_parts(rest: Rest) -> list[Part]:
    """Empty the rest into parts to give back. Any thread may take from it meanwhile."""
    found: dict[int, Part] = {}
    while rest:
        try:
            queue, message = rest.popleft()
        except IndexError:
            break
        found.setdefault(id(queue), Part(queue, [])).messages.append(message)
    return list(found.values())
