"""DispatchRequest: what is derived from records of the commit log, on its way to their consume queue. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from rocketpy.wire.java_hash import tags_code
from rocketpy.wire.properties import find_property
from rocketpy.wire.sysflag import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE

__all__ = ["AnyRequest", "DispatchRequest", "is_consumable", "tags_code_of"]

_CONSUMABLE = (TRANSACTION_NONE, TRANSACTION_COMMIT)

Queue = TypeVar("Queue")


class DispatchRequest(NamedTuple, Generic[Queue]):
    """A record that stands in the log, or the records of a batch in a row, and what is derived from them.

    Attributes:
        queue: Where all of them belong.
        queue_offset: Of the first one; those of the others follow.
        position: Where the first one begins.
        size: Bytes of all of them.
        tags_codes: One for each record.
        store_timestamp: When all of them were stored, ms.
        sys_flag: Flag word of all of them.
        properties: The stored ones of each record.
        units: One for each record, as the queue keeps them.
    """

    queue: Queue
    queue_offset: int
    position: int
    size: int
    tags_codes: Sequence[int]
    store_timestamp: int
    sys_flag: int
    properties: Sequence[bytes]
    units: bytes


AnyRequest: TypeAlias = DispatchRequest[Any]
"""For those who do not look at the queue, such as the queue itself."""


def is_consumable(sys_flag: int) -> bool:
    """Whether a record gets a queue offset: prepared and rolled back transactions get none."""
    return sys_flag & TRANSACTION_MASK in _CONSUMABLE


def tags_code_of(properties: bytes) -> int:
    """The hash of the tag in encoded properties, 0 without one."""
    tag = find_property(properties, b"TAGS")
    return _code_of_tag(tag) if tag else 0


@lru_cache(maxsize=4096)
def _code_of_tag(tag: bytes) -> int:
    return tags_code(tag.decode("utf-8", "replace"))
