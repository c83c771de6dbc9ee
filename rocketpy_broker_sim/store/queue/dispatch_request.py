"""DispatchRequest: what is derived from records of the commit log, on its way to their consume queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

__all__ = ["AnyRequest", "DispatchRequest"]

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
