"""Where queues ended when the broker was started after an unclean stop, for groups that may be beyond those ends.

A power loss may destroy the last messages of a queue, and new messages take their places. Members that kept running
would skip the new ones, because they continue after the messages that they have got. Until a member has pulled since
the start, it cannot know of anything beyond the end that the queue had then. So if the first pull of a group asks for
an offset beyond that end, the group is sent back to its committed offset, and until it has pulled, commits beyond the
end are refused. Java has no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["EndsAtStart"]

_BYTES_A_PAIR = 320
"""Estimated bytes of a topic and group, not counting the key, which other tables share."""
_BYTES_AN_END = 104


class EndsAtStart:
    """The ends of queues, by "topic@group" and queue, for the groups that have not pulled them since the start.

    Args:
        note: called with every change of the estimated size in bytes.
    """

    def __init__(self, note: Callable[[int], None]) -> None:
        self._note = note
        self._ends: dict[str, dict[int, int]] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._ends)

    def begin(self, offsets: Mapping[str, Mapping[int, int]], end: Callable[[str, int], int]) -> None:
        """Note the ends of queues, when the broker starts after an unclean stop.

        Args:
            offsets: the committed offsets, by the same keys.
            end: returns the end of a queue, by key and queue.
        """
        self._ends = {key: {queue_id: end(key, queue_id) for queue_id in queues} for key, queues in offsets.items()}
        self._note(sum(_size_of(len(queues)) for queues in self._ends.values()))

    def is_beyond(self, key: str, queue_id: int, offset: int) -> bool:
        """Whether an offset is beyond the end at the start, and the group has not pulled the queue since."""
        end = self._ends.get(key, {}).get(queue_id)
        return end is not None and offset > end

    def heard(self, key: str, queue_id: int) -> None:
        """Note a pull from an offset that existed at the start: from now on, the group's offsets are trusted."""
        queues = self._ends.get(key)
        if queues is not None and queue_id in queues:
            self._note(_size_of(len(queues) - 1) - _size_of(len(queues)))
            del queues[queue_id]
            if not queues:
                del self._ends[key]

    def forget(self, key: str) -> None:
        """Forget a topic or a group that is deleted."""
        queues = self._ends.pop(key, None)
        if queues is not None:
            self._note(-_size_of(len(queues)))


def _size_of(queues: int) -> int:
    return _BYTES_A_PAIR + _BYTES_AN_END * queues if queues else 0
