"""The base class of all settings of servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import attrs

if TYPE_CHECKING:
    from attrs import AttrsInstance

__all__ = ["Settings"]


class Settings:
    """Settings that are compared and shown field by field.

    This is done in loops, because attrs would generate methods of a hundred lines, and compile them at each start.
    """

    __slots__ = ()

    def _items(self) -> list[tuple[str, object]]:
        fields = attrs.fields(cast("type[AttrsInstance]", type(self)))
        return [(field.name, getattr(self, field.name)) for field in fields]

    def __eq__(self, other: object) -> bool:
        return self._items() == other._items() if isinstance(other, type(self)) else NotImplemented

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._items())})"
