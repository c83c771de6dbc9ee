"""The items of a batch on their way into the store: read, counted, and freed of what only a broker may write.

All of it in steps, so that the work for a large batch can be done a little at a time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Sequence
from itertools import accumulate
from typing import NamedTuple, Self

from rocketpy.errors import BrokerError, MessageDecodeError
from rocketpy.message import PropertyName
from rocketpy.wire.alike import have_same_names
from rocketpy.wire.batch_columns import BatchColumns, decode_columns, decode_columns_steps
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.properties import decode_properties, encode_properties
from rocketpy.wire.steps import run_steps

__all__ = ["FEW_ITEMS", "MOST_ITEMS", "SYSTEM_PROPERTIES", "RefusedBatch", "few_items_of", "items_of"]

MOST_ITEMS = 10_000
"""Messages of a batch. They are put in one go, which takes some 12 ms; their ids stand in the header of one answer."""
SYSTEM_PROPERTIES = frozenset(
    {
        PropertyName.REAL_TOPIC,
        PropertyName.REAL_QUEUE_ID,
        PropertyName.POP_CK,
        PropertyName.INNER_BASE,
        PropertyName.INNER_MULTI_DISPATCH,
        PropertyName.INNER_MULTI_QUEUE_OFFSET,
        PropertyName.TRANSACTION_ID,
        PropertyName.TRANSACTION_PREPARED_QUEUE_OFFSET,
        PropertyName.TRANSACTION_CHECK_TIMES,
        PropertyName.TIMER_OUT_MS,
        PropertyName.TIMER_ENQUEUE_MS,
        PropertyName.TIMER_DEQUEUE_MS,
        PropertyName.TIMER_ROLL_TIMES,
        PropertyName.TIMER_DEL_UNIQUE_KEY,
        PropertyName.CRC32,
    }
)
"""What only a broker writes. Dropped when a client sends it."""

_SYSTEM_BYTES = tuple(f"{name}\x01".encode() for name in sorted(SYSTEM_PROPERTIES))
_USUAL_BYTES = tuple(
    f"{name}\x01".encode()
    for name in (PropertyName.UNIQUE_KEY, PropertyName.WAIT, PropertyName.TAGS, PropertyName.KEYS)
)
"""What most messages carry. No other of these names, and none that only a broker writes, ends in one of them."""
FEW_ITEMS = 512
"""Messages of a batch that is read at once."""
_FEW_BYTES = 64 * 1024
"""Bytes of properties that are looked through in one step."""
_MANY = 64
"""So many items are worth a look whether they have the same names."""
_MUCH = 256 * 1024
"""Bytes of properties that are compared in one step: a tenth of a millisecond."""
_STEP = 128
"""Items that are cleaned in one step."""


class RefusedBatch(NamedTuple):
    """Why a batch is not stored.

    Kept in place of the error, which would hold the request by its traceback until the garbage collector comes by.
    """

    code: int
    """Response code of the answer."""
    remark: str
    """Text of the answer."""

    @classmethod
    def of(cls, error: BrokerError) -> Self:
        """What an error says."""
        return cls(error.code, error.remark)


def items_of(body: bytes) -> Generator[None, None, BatchColumns]:
    """The items of a batch, without the properties that only a broker writes; in steps.

    Raises:
        BrokerError: it is no batch, has too many messages, or one without a body.
    """
    try:
        items = yield from decode_columns_steps(body, most=MOST_ITEMS + 1)
    except MessageDecodeError as exc:
        raise _illegal(f"the batch cannot be read: {exc}") from exc
    _check(items)
    items.have_same_names = _have_same_names(items.properties)
    yield
    # Rarely true, and cheaper to find out for many of them together than for one after the other.
    if items.have_same_names:
        is_forged = _is_forged(items.properties[0])
    else:
        is_forged = yield from _is_any_forged(items.properties)
    return (yield from _cleaned(items)) if is_forged else items


def _have_same_names(properties: Sequence[bytes]) -> bool:
    """Whether properties have the same names, as far as one step can tell."""
    if len(properties) < _MANY or len(properties) * len(properties[0]) > _MUCH:
        return False
    return have_same_names(properties)


def few_items_of(body: bytes) -> BatchColumns | RefusedBatch | None:
    """The same at once, or what is wrong with them; None when they are many."""
    if len(body) > FEW_ITEMS * int.from_bytes(body[:4], "big"):
        return None  # many, if the others are no larger than the first: reading so many in vain takes a millisecond
    try:
        items = decode_columns(body, most=FEW_ITEMS + 1)
    except MessageDecodeError as exc:
        return RefusedBatch.of(_illegal(f"the batch cannot be read: {exc}"))
    if len(items) > FEW_ITEMS:
        return None
    properties = b"\x02".join(items.properties)
    if len(properties) > _FEW_BYTES:
        return None
    try:
        _check(items)
    except BrokerError as exc:
        return RefusedBatch.of(exc)
    return run_steps(_cleaned(items)) if _is_forged(properties) else items


def _check(items: BatchColumns) -> None:
    """Raises as `items_of`."""
    if len(items) > MOST_ITEMS:
        raise _illegal(f"the batch has more than {MOST_ITEMS} messages: send it in several")
    if not items or not all(items.bodies):
        raise _illegal("the batch has no message, or one without a body")


def _cleaned(items: BatchColumns) -> Generator[None, None, BatchColumns]:
    """Items without the properties that only a broker writes; in steps."""
    cleaned: list[bytes] = []
    for start in range(0, len(items), _STEP):
        cleaned += map(_clean, items.properties[start : start + _STEP])
        yield
    return BatchColumns(items.flags, items.bodies, cleaned)


def _illegal(remark: str) -> BrokerError:
    return BrokerError.for_code(ResponseCode.MESSAGE_ILLEGAL, remark)


def _is_any_forged(properties: Sequence[bytes]) -> Generator[None, None, bool]:
    """Whether there may be a property that only a broker writes in any of them; in steps."""
    ends = list(accumulate(map(len, properties)))
    start = looked = 0
    while start < len(properties):
        stop = max(start + 1, bisect_right(ends, looked + _FEW_BYTES, start))
        if _is_forged(b"\x02".join(properties[start:stop])):
            return True
        start, looked = stop, ends[stop - 1]
        yield
    return False


def _is_forged(properties: bytes) -> bool:
    """Whether there may be a property that only a broker writes."""
    left = properties.count(b"\x01")
    for name in _USUAL_BYTES:  # counting these takes less time than looking for all the others
        left -= properties.count(name)
        if not left:
            return False
    return any(map(properties.__contains__, _SYSTEM_BYTES))


def _clean(properties: bytes) -> bytes:
    """The properties of an item without those that only a broker writes."""
    found = decode_properties(properties.decode("utf-8", "replace"))
    return encode_properties({name: value for name, value in found.items() if name not in SYSTEM_PROPERTIES}).encode()
