"""The modes, by topic and group, that administrators have set. All groups pull, so the modes change nothing here.

They are kept in memory only, for requests that ask for them. Plays the part of MessageRequestModeManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpy.wire.bodies.groups import SetMessageRequestModeRequestBody

__all__ = ["MOST_MODES", "RequestModes"]

MOST_MODES = 1000
"""Pairs of a topic and a group; if there are more, the oldest are dropped."""


class RequestModes:
    """The modes by topic and group."""

    def __init__(self) -> None:
        self._modes: dict[tuple[str, str], SetMessageRequestModeRequestBody] = {}

    def put(self, topic: str, group: str, mode: SetMessageRequestModeRequestBody) -> None:
        """Note the mode of a group for a topic."""
        self._modes.pop((topic, group), None)
        self._modes[topic, group] = mode
        if len(self._modes) > MOST_MODES:
            del self._modes[next(iter(self._modes))]

    def by_topic(self, is_there: Callable[[str, str], bool]) -> dict[str, dict[str, SetMessageRequestModeRequestBody]]:
        """Return the modes of topics and groups that still exist, and drop the others.

        Args:
            is_there: whether a topic and a group of these names exist.
        """
        found: dict[str, dict[str, SetMessageRequestModeRequestBody]] = {}
        for (topic, group), mode in list(self._modes.items()):
            if is_there(topic, group):
                found.setdefault(topic, {})[group] = mode
            else:
                del self._modes[topic, group]
        return found
