"""Where queues ended when the broker was started after an unclean stop, for the groups that may stand beyond that.

A power loss may take the last messages of a queue, and new ones take their places. Members that ran on meanwhile would
pass over these: they go on behind the messages that they have got. No member can have got more than what was there at
the start before it has pulled again. So if the first pull of a group since the start goes beyond that, the group is
sent back to its committed offset; until then a commit beyond it is refused. Java has no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["EndsAtStart"]

_BYTES_A_PAIR = 320
"""Estimated bytes of a topic and group, whose key others keep too."""
_BYTES_AN_END = 104


class EndsAtStart:
    """The ends of queues, by "topic@group" and queue, for the groups that have not pulled them since the start.

    Args:
        note: told of every change of the estimated size in bytes.
    """

    def __init__(self, note: Callable[[int], None]) -> None:
        self._note = note
        self._ends: dict[str, dict[int, int]] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._ends)

    def begin(self, offsets: Mapping[str, Mapping[int, int]], end: Callable[[str, int], int]) -> None:
        """The broker starts after an unclean stop.

        Args:
            offsets: the committed offsets, by the same keys.
            end: gives where a queue ends, by key and queue.
        """
        self._ends = {key: {queue_id: end(key, queue_id) for queue_id in queues} for key, queues in offsets.items()}
        self._note(sum(_size_of(len(queues)) for queues in self._ends.values()))

    def is_beyond(self, key: str, queue_id: int, offset: int) -> bool:
        """Whether an offset lies beyond the end at the start, and the group has not pulled the queue since."""
        end = self._ends.get(key, {}).get(queue_id)
        return end is not None and offset > end

    def heard(self, key: str, queue_id: int) -> None:
        """The group pulls from an offset that was there at the start: from now on it knows what it does."""
        queues = self._ends.get(key)
        if queues is not None and queue_id in queues:
            self._note(_size_of(len(queues) - 1) - _size_of(len(queues)))
            del queues[queue_id]
            if not queues:
                del self._ends[key]

    def forget(self, key: str) -> None:
        """The topic or the group is deleted."""
        queues = self._ends.pop(key, None)
        if queues is not None:
            self._note(-_size_of(len(queues)))


def _size_of(queues: int) -> int:
    return _BYTES_A_PAIR + _BYTES_AN_END * queues if queues else 0
