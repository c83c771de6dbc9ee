"""How many bytes a table has grown by while a request that changes many of its entries was looked at in steps.

Has no counterpart in Java, whose tables have no bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

__all__ = ["changes_of_size"]

_Entry = TypeVar("_Entry")


def changes_of_size(
    names: Iterable[str], former: Mapping[str, _Entry], now: Mapping[str, _Entry], size_of: Callable[[_Entry], int]
) -> Iterator[int]:
    """Bytes that each entry takes more than before. Only entries that are others now are measured.

    Args:
        names: of the entries that are looked at.
        former: those that there were, by name.
        now: the table.
        size_of: the bytes that an entry takes.
    """
    for name in names:
        before, after = former.get(name), now.get(name)
        if before is not after:
            yield (0 if after is None else size_of(after)) - (0 if before is None else size_of(before))
