"""Puts back what fastjson wrote once and then only named: ``{"$ref":"$.path"}``.

A Java object that is reachable twice is written where it was met first; "$" is the root, ".." the parent, "$.a.b[0]" a
path. What cannot be found reads as null. Works on plain values, before a body looks at them.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

from rocketpy.errors import RemoteProtocolError

__all__ = ["resolve_refs"]

_LONGEST_PATH = 512

_STEP = re.compile(r"\.([^.\[\]]++)|\[(\d{1,9})\]|\[[\"']([^\"']*+)[\"']\]")


def resolve_refs(value: Any, max_members: int) -> Generator[None, None, Any]:
    """A copy of `value` with every reference replaced by what it names, in steps: the generator returns it.

    Raises:
        RemoteProtocolError: references multiply the value past `max_members`, or lead in a circle.
    """
    return (yield from _Resolver(value, max_members).copy(value, ()))


class _Resolver:
    """Counts what is copied and what is walked, so that references to references cannot grow without bound."""

    def __init__(self, root: Any, budget: int) -> None:
        self.root = root
        self.budget = budget

    def copy(self, value: Any, parents: tuple[Any, ...]) -> Generator[None, None, Any]:
        """Copy one value; `parents` are the structures around it, the outermost first."""
        self.budget -= 1
        if self.budget < 0 or len(parents) > 64:
            raise RemoteProtocolError("JSON references that grow without bound")
        if not isinstance(value, (list, dict)):
            return value
        yield
        if isinstance(value, list):
            items: list[Any] = [None] * len(value)
            for index, item in enumerate(value):
                items[index] = yield from self.copy(item, (*parents, value))
            return items
        if len(value) == 1 and isinstance(value.get("$ref"), str):
            return (yield from self.copy(self.find(value["$ref"], parents), (*parents, value)))
        found = {}
        for key, item in value.items():
            found[key] = yield from self.copy(item, (*parents, value))
        return found

    def find(self, path: str, parents: tuple[Any, ...]) -> Any:
        """What a reference names."""
        if path == "@":
            return parents[-1] if parents else None
        if path == "..":
            return parents[-2] if len(parents) > 1 else None
        if not path.startswith("$") or len(path) > _LONGEST_PATH:
            return None
        found, position = self.root, 1
        while position < len(path):
            step = _STEP.match(path, position)
            if step is None:
                return None
            found = _member(found, step)
            self.budget -= 1
            position = step.end()
        return found


def _member(value: Any, step: re.Match[str]) -> Any:
    name = step.group(1) or step.group(3)
    if isinstance(value, list) and step.group(2) is not None:
        index = int(step.group(2))
        return value[index] if index < len(value) else None
    if isinstance(value, dict):
        return value.get(name if name is not None else step.group(2))
    return None
