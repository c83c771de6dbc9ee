"""Bodies written in steps: a table of a hundred thousand entries is no single call.

The bytes are those of ``Body.encode``, but that the elements of a set come in any order. They gather in one buffer, a
stretch of entries at a time, so that writing a table needs little more memory than the answer itself.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from rocketpy.errors import BrokerError
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.json_body import members_of
from rocketpy.wire.lenient_json import write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy.wire.json_body import Body

__all__ = ["MOST_ENCODED", "append_parts", "encode_steps", "parts_of"]

MOST_ENCODED = 15 * 1024 * 1024
"""Bytes of a body written here; with its header it must fit into a frame."""
STRETCH = 16
"""Entries that one step writes."""

T = TypeVar("T")


def encode_steps(body: Body) -> Generator[None, None, bytes]:
    """``body.encode()`` in steps; its tables and lists must not change meanwhile, or be copies.

    Raises:
        BrokerError: it would be too large for a frame.
    """
    found = bytearray(b"{")
    for each in members_of(type(body)):
        value = getattr(body, each.attribute)
        if value is None:
            continue
        if len(found) > 1:
            found += b","
        found += write_json(each.names[0]).encode() + b":"
        if isinstance(value, dict):
            yield from append_parts(found, b"{}", _parts_of_table(value, each.write))
        elif isinstance(value, (list, set)):
            yield from append_parts(found, b"[]", (write_json(each.write(part)) for part in parts_of(value)))
        else:
            found += write_json(each.write(value)).encode()
    found += b"}"
    yield
    return bytes(found)


def _parts_of_table(table: dict[Any, Any], write: Callable[[Any], Any]) -> Iterator[str]:
    """The JSON of a table in parts; tables in it that are large are cut as well."""
    for part in parts_of(table.items()):
        if not any(isinstance(value, dict) and len(value) > STRETCH for _, value in part):
            yield write_json(write(dict(part)))
            continue
        for key, value in part:
            yield from _parts_of_entry(key, value, write)


def _parts_of_entry(key: object, value: Any, write: Callable[[Any], Any]) -> Iterator[str]:
    """The JSON of one entry of a table: the bracket of a large table within is only closed by the last part."""
    if not isinstance(value, dict) or not value:
        yield write_json(write({key: value}))
        return
    parts = list(parts_of(value.items(), STRETCH * STRETCH))
    for number, part in enumerate(parts):
        written = write({key: dict(part)})
        text = write_json(written).removesuffix("}") if number == 0 else write_json(*written.values())
        yield text + "}" if number == len(parts) - 1 else text


def append_parts(found: bytearray, brackets: bytes, parts: Iterator[str]) -> Generator[None, None, None]:
    """Add the entries of tables or lists as those of one, a part in each step.

    Args:
        found: what is written so far.
        brackets: those of the one.
        parts: JSON of tables or lists; each is made when its step comes.

    Raises:
        BrokerError: it becomes too large for a frame.
    """
    found += brackets[:1]
    separator = b""
    for part in parts:
        inner = part[1:-1]
        if inner:
            found += separator + inner.encode()
            separator = b","
        if len(found) > MOST_ENCODED:
            remark = f"the answer would have more than {MOST_ENCODED} bytes: ask for it in pages, or for less"
            raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)
        yield
    found += brackets[1:]


def parts_of(items: Iterable[T], size: int = STRETCH) -> Iterator[list[T]]:
    """Items, so many at a time: what one step writes."""
    iterator = iter(items)
    while part := list(islice(iterator, size)):
        yield part
