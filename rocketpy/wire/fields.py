"""Declare a custom header once: its fields, their wire types, their names. Everything else follows from that.

    @header(RequestCode.QUERY_CONSUMER_OFFSET)
    class QueryConsumerOffsetRequestHeader(TopicQueueHeader):
        consumer_group: str = text()
        set_zero_if_not_found: bool | None = boolean(default=None)

A field without a default is required: writing a header without it is a LocalProtocolError, reading one without it a
HeaderFieldError (which a server turns into an answer, not into a closed connection). On the wire every value is text
under the camel-case form of its name, or under `name`; `short` is its name in the one-letter form of SEND_MESSAGE_V2.
A value that cannot be read as its type counts as absent, as in Java. Plays the part of CommandCustomHeader and of the
reflection in RemotingCommand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast, dataclass_transform

import attrs

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.wire.declared import Declared, declared

if TYPE_CHECKING:
    import enum

__all__ = [
    "Header",
    "HeaderFieldError",
    "WireField",
    "boolean",
    "choice",
    "float64",
    "header",
    "int32",
    "int64",
    "text",
]

_REQUIRED: Any = object()
_WIRE = "rocketpy.wire"


class HeaderFieldError(RemoteProtocolError):
    """A required field of a custom header is missing or not readable; the connection is still good.

    Attributes:
        field: Name of the field on the wire.
    """

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


@attrs.frozen
class WireField:
    """How one field travels."""

    attribute: str
    name: str
    """Key in the extension fields."""
    short: str | None
    """Key in the short form, None when the field has none."""
    kind: str
    """"text", "int32", "int64", "boolean", "float64" or the name of an enumeration."""
    required: bool
    """Whether writing the header needs it, and reading it, too, when `missing` is None."""
    default: Any
    missing: Any
    """What a required field reads as where it is not there."""
    read: Callable[[str], Any]
    """Text to value; None when the text is no such value."""
    write: Callable[[Any], str]


_Step = tuple[str, str, Callable[[str], Any] | None, WireField]
"""How one field is read: key, attribute, text to value (None for text), and the field itself."""


# --- field specifiers ----------------------------------------------------------------------------------


_DECIMAL = re.compile("[+-]?[0-9]+")
_SMALL = {str(number): number for number in range(256)}
"""Most numbers in headers are queue ids, flags and counts."""


def _read_text(value: str) -> str | None:
    return value


def _bounded_reader(bits: int) -> Callable[[str], int | None]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    surely_fits = len(str(high))

    def read(value: str) -> int | None:
        number = _SMALL.get(value)
        if number is not None:
            return number
        if len(value) < surely_fits and value.isascii() and value.isdigit():
            return int(value)
        # int() also takes blanks, underscores and digits of other scripts; Java's parser does not.
        if len(value) > 20 or _DECIMAL.fullmatch(value) is None:
            return None
        number = int(value)
        return number if low <= number <= high else None

    return read


_read_int32 = _bounded_reader(32)
_read_int64 = _bounded_reader(64)


def _read_boolean(value: str) -> bool:
    return value.lower() == "true"


def _read_boolean_or_one(value: str) -> bool:
    return value == "1" or _read_boolean(value)


def _write_boolean(value: Any) -> str:
    return "true" if value else "false"


def _read_float(value: str) -> float | None:
    try:
        return float(value) if len(value) <= 64 else None
    except ValueError:
        return None


def text(
    *, default: Any = _REQUIRED, name: str | None = None, short: str | None = None, missing: str | None = None
) -> Any:
    """A field of text. With `missing` we always write it, and a peer that leaves it out is still served."""
    return _field("text", _read_text, str, default, name, short, missing)


def int32(*, default: Any = _REQUIRED, name: str | None = None, short: str | None = None) -> Any:
    """A field of a 32-bit number (Java's int)."""
    return _field("int32", _read_int32, str, default, name, short)


def int64(*, default: Any = _REQUIRED, name: str | None = None, short: str | None = None) -> Any:
    """A field of a 64-bit number (Java's long)."""
    return _field("int64", _read_int64, str, default, name, short)


def boolean(*, default: Any = _REQUIRED, name: str | None = None, short: str | None = None, one: bool = False) -> Any:
    """A field of "true" or "false"; every other text reads as false, "1" too unless `one` is true."""
    read = _read_boolean_or_one if one else _read_boolean
    return _field("boolean", read, _write_boolean, default, name, short)


def float64(*, default: Any = _REQUIRED, name: str | None = None, short: str | None = None) -> Any:
    """A field of a floating-point number (Java's double)."""
    return _field("float64", _read_float, repr, default, name, short)


def choice(
    kind: type[enum.Enum], *, default: Any = _REQUIRED, name: str | None = None, short: str | None = None
) -> Any:
    """A field that carries the name of a member of `kind`, read without regard to case."""
    members = {member.name.lower(): member for member in kind}

    def read(value: str) -> enum.Enum | None:
        return members.get(value.lower())

    def write(value: Any) -> str:
        return str(value.name)

    return _field(kind.__name__, read, write, default, name, short)


def _field(
    kind: str,
    read: Callable[[str], Any],
    write: Callable[[Any], str],
    default: Any,
    name: str | None,
    short: str | None,
    missing: Any = None,
) -> Any:
    return kind, read, write, default, name, short, missing


def _attrs_field(specified: Any) -> Any:
    """The field of attrs for what `_field` has taken down."""
    kind, read, write, default, name, short, missing = specified
    required = default is _REQUIRED
    wire = WireField("", name or "", short, kind, required, None if required else default, missing, read, write)
    if required:
        return attrs.field(metadata={_WIRE: wire})
    return attrs.field(default=default, metadata={_WIRE: wire})


# --- the declaration -----------------------------------------------------------------------------------


class Header(Declared):
    """Base of every custom header. Subclasses are made by `header`."""

    __slots__ = ()
    wire_fields: ClassVar[tuple[WireField, ...]] = ()
    codes: ClassVar[tuple[int, ...]] = ()
    """The request codes that carry this header (for an answer: whose answers carry it)."""
    is_answer: ClassVar[bool] = False
    _by_name: ClassVar[tuple[_Step, ...]] = ()
    _by_short_name: ClassVar[tuple[_Step, ...]] = ()

    def to_ext(self) -> dict[str, str]:
        """The header as extension fields; fields that are None are left out.

        Raises:
            LocalProtocolError: a required field is None.
        """
        ext: dict[str, str] = {}
        for field in self.wire_fields:
            value = getattr(self, field.attribute)
            if value is not None:
                ext[field.name] = field.write(value)
            elif field.required:
                raise LocalProtocolError(f"{type(self).__name__} needs {field.attribute}")
        return ext

    def to_short_ext(self) -> dict[str, str]:
        """The header in its one-letter form; fields without a short name keep their long one."""
        ext: dict[str, str] = {}
        for field in self.wire_fields:
            value = getattr(self, field.attribute)
            if value is not None:
                ext[field.short or field.name] = field.write(value)
            elif field.required:
                raise LocalProtocolError(f"{type(self).__name__} needs {field.attribute}")
        return ext

    @classmethod
    def from_ext(cls, ext: dict[str, str]) -> Self:
        """Read the header from extension fields; fields that it does not declare are ignored.

        Raises:
            HeaderFieldError: a required field is missing or is not of its type.
        """
        return _read(cls, cls._by_name, ext)

    @classmethod
    def from_short_ext(cls, ext: dict[str, str]) -> Self:
        """Read the header from its one-letter form; fields without a short name go by their long one.

        Raises:
            HeaderFieldError: a required field is missing or is not of its type.
        """
        return _read(cls, cls._by_short_name, ext)


HeaderType = TypeVar("HeaderType", bound=Header)


def _step(field: WireField, name: str) -> _Step:
    return name, field.attribute, None if field.read is _read_text else field.read, field


def _read(cls: type[HeaderType], fields: tuple[_Step, ...], ext: dict[str, str]) -> HeaderType:
    values = {}
    get = ext.get
    for name, attribute, read, field in fields:
        raw = get(name)
        if raw is not None:
            value = raw if read is None else read(raw)
            if value is not None:
                values[attribute] = value
                continue
        if field.required:
            values[attribute] = _missing(cls, field, raw, name)
    return cls(**values)


def _missing(cls: type[Header], field: WireField, raw: str | None, name: str) -> Any:
    if field.missing is not None:
        return field.missing
    problem = "is missing" if raw is None else f"is not a valid {field.kind}"
    raise HeaderFieldError(f"{cls.__name__}: the field {name} {problem}", field=name)


@dataclass_transform(kw_only_default=True, field_specifiers=(text, int32, int64, boolean, float64, choice))
def header(*codes: int, answer: bool = False) -> Callable[[type[HeaderType]], type[HeaderType]]:
    """Make a class the declaration of a custom header.

    Args:
        codes: the request codes that it belongs to.
        answer: it travels with the answers to `codes`, not with the requests.
    """

    def declare(cls: type[HeaderType]) -> type[HeaderType]:
        later = ("wire_fields", "_by_name", "_by_short_name")
        made = declared(cls, _attrs_field, finished=_set_wire_fields, later=later)
        made.codes = codes
        made.is_answer = answer
        return made

    return declare


def _set_wire_fields(cls: type[Header]) -> None:
    cls.wire_fields = tuple(_named(attribute) for attribute in attrs.fields(cast("type[attrs.AttrsInstance]", cls)))
    cls._by_name = tuple(_step(field, field.name) for field in cls.wire_fields)
    cls._by_short_name = tuple(_step(field, field.short or field.name) for field in cls.wire_fields)


def _named(attribute: attrs.Attribute[Any]) -> WireField:
    wire: WireField = attribute.metadata[_WIRE]
    return attrs.evolve(wire, attribute=attribute.name, name=wire.name or camel_case(attribute.name))


def camel_case(name: str) -> str:
    """``queue_id`` -> ``queueId``."""
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)
