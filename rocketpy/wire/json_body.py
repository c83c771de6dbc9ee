"""Declare a JSON body once: its members, their types, their names. Reading and writing follow from that.

    @body
    class QueueData(Body):
        broker_name: str
        perm: Int32 = 6
        read_queue_nums: Int32 = member(default=16, also=("readQueues",))

A member travels under the camel-case form of its name, or under `name`; on reading the names in `also` count too.
Annotations say the type: str, int (64 bits), `Int32`, bool, float, bytes (base64), Any (JSON as it is), an
enumeration (by name), another body, a NamedTuple (an object of its fields), list, set, and dict with keys of str, int
or a NamedTuple (Java's object keys), each of them optional with `| None`. A member without a default must be there.
As fastjson does, we write members in alphabetical order without those that are None; we read numbers for text and
text for numbers, ignore members that are not declared and take a name that an enumeration lacks for none at all.
Plays the part of RemotingSerializable.
"""

from __future__ import annotations

import base64
import binascii
import enum
import types
import typing
from collections.abc import Callable, Generator
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar, cast, dataclass_transform

import attrs

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.declared import Declared, declared, finish
from rocketpy.wire.fields import camel_case
from rocketpy.wire.json_refs import resolve_refs
from rocketpy.wire.lenient_json import parse_json, write_json
from rocketpy.wire.limits import DEFAULT_LIMITS, WireLimits

__all__ = ["Body", "Int32", "body", "member"]

Int32 = Annotated[int, 32]
"""A number that must fit 32 bits, Java's int."""

_NAMES = "rocketpy.wire.names"
_Reader = Callable[[Any], Any]
_Writer = Callable[[Any], Any]


class _Unreadable(Exception):
    """A value is not of its declared type; the text says where and why. Never leaves this module."""


class _Codec(NamedTuple):
    read: _Reader
    write: _Writer


class _Member(NamedTuple):
    """How one member travels."""

    attribute: str
    names: tuple[str, ...]
    """The name it is written under, then the others it is read under."""
    read: _Reader
    write: _Writer
    required: bool


# --- the declaration -----------------------------------------------------------------------------------


def member(
    *,
    default: Any = attrs.NOTHING,
    factory: Callable[[], Any] | None = None,
    name: str | None = None,
    also: tuple[str, ...] = (),
) -> Any:
    """A member with a default that is made anew, or with another name than its attribute's."""
    return _Specified(default if factory is None else attrs.Factory(factory), name, also)


class _Specified(NamedTuple):
    default: Any
    name: str | None
    also: tuple[str, ...]


def _attrs_field(value: Any) -> Any:
    """The field of attrs for what stands behind a member: a `member`, or just its default."""
    if not isinstance(value, _Specified):
        return attrs.field(default=value)
    return attrs.field(default=value.default, metadata={_NAMES: (value.name, value.also)})


class Body(Declared):
    """Base of every JSON body. Subclasses are made by `body`."""

    __slots__ = ()
    _members: ClassVar[tuple[_Member, ...] | None] = None

    def encode(self, *, browser_compatible: bool = False) -> bytes:
        """The body as it travels.

        Args:
            browser_compatible: standard JSON, with every key quoted and sorted and everything outside ASCII escaped.

        Raises:
            LocalProtocolError: a member holds what JSON cannot carry.
        """
        return write_json(self.to_json(), browser_compatible=browser_compatible).encode()

    @classmethod
    def decode(cls, data: bytes, *, limits: WireLimits = DEFAULT_LIMITS) -> Self:
        """Read a body.

        Raises:
            RemoteProtocolError: the bytes are not this body, or over a limit.
        """
        if len(data) > limits.max_json_body:
            raise RemoteProtocolError(f"{cls.__name__}: {len(data)} bytes of JSON, the limit is {limits.max_json_body}")
        if not data:
            raise RemoteProtocolError(f"{cls.__name__}: the body is missing")
        value = parse_json(data, max_depth=limits.max_body_depth, max_members=limits.max_body_members)
        if b'"$ref"' in data:
            value = resolve_refs(value, limits.max_body_members)
        return cls.from_json(value)

    @classmethod
    def decode_steps(cls, data: bytes, *, limits: WireLimits = DEFAULT_LIMITS) -> Generator[None, None, Self]:
        """`decode` in steps."""
        yield
        return cls.decode(data, limits=limits)

    def to_json(self) -> dict[str, Any]:
        """The body as plain values, members in alphabetical order."""
        found = {}
        for each in members_of(type(self)):
            value = getattr(self, each.attribute)
            if value is not None:
                found[each.names[0]] = each.write(value)
        return found

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Read a body from plain values, as `parse_json` gives them.

        Raises:
            RemoteProtocolError: a member is missing or not of its type.
        """
        try:
            return _read_body(cls, value)
        except _Unreadable as exc:
            raise RemoteProtocolError(f"{cls.__name__}: {exc}") from exc


BodyType = TypeVar("BodyType", bound=Body)


@dataclass_transform(kw_only_default=True, field_specifiers=(member,))
def body(cls: type[BodyType]) -> type[BodyType]:
    """Make a class the declaration of a JSON body."""
    made = declared(cls, _attrs_field)
    made._members = None
    return made


def members_of(cls: type[Body]) -> tuple[_Member, ...]:
    """The members of a body in alphabetical order, worked out on first use: bodies may name bodies declared later."""
    if cls._members is None:
        finish(cls)
        hints = typing.get_type_hints(cls, include_extras=True)
        fields = attrs.fields(cast(type[attrs.AttrsInstance], cls))
        found = [_member(attribute, hints[attribute.name]) for attribute in fields]
        cls._members = tuple(sorted(found, key=lambda each: each.names[0]))
    return cls._members


def _member(attribute: attrs.Attribute[Any], hint: Any) -> _Member:
    name, also = attribute.metadata.get(_NAMES, (None, ()))
    codec = _codec(hint)
    names = (name or camel_case(attribute.name), *also)
    return _Member(attribute.name, names, codec.read, codec.write, attribute.default is attrs.NOTHING)


def _read_body(cls: type[BodyType], value: Any) -> BodyType:
    if not isinstance(value, dict):
        raise _Unreadable(f"{_kind(value)} where an object should be")
    found = {}
    for each in members_of(cls):
        item = _read_member(each, value)
        if item is not None:
            found[each.attribute] = item
        elif each.required:
            raise _Unreadable(f"the member {each.names[0]} is missing")
    return cls(**found)


def _read_member(each: _Member, value: dict[str, Any]) -> Any:
    raw = next((value[name] for name in each.names if value.get(name) is not None), None)
    try:
        return None if raw is None else each.read(raw)
    except _Unreadable as exc:
        raise _Unreadable(f"{each.names[0]}: {exc}") from exc


# --- types -> readers and writers ------------------------------------------------------------------------


def _codec(hint: Any) -> _Codec:
    """How a value of an annotated type is read and written."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (some,) = (argument for argument in arguments if argument is not types.NoneType)
        return _codec(some)
    if origin is list:
        return _array_codec(_codec(arguments[0]))
    if origin in (set, frozenset):
        return _set_codec(_codec(arguments[0]))
    if origin is dict:
        return _map_codec(_key_codec(arguments[0]), _codec(arguments[1]))
    if origin is Annotated:
        return _Codec(_int_reader(arguments[1]), int)
    return _plain_codec(hint)


def _plain_codec(hint: Any) -> _Codec:
    if hint in _SCALARS:
        return _SCALARS[hint]
    if isinstance(hint, type) and issubclass(hint, Body):
        return _Codec(lambda value: _read_body(hint, value), lambda value: value.to_json())
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _enum_codec(hint)
    if isinstance(hint, type) and issubclass(hint, tuple):
        return _tuple_codec(hint)
    raise TypeError(f"{hint!r} cannot be a member of a JSON body")


def _array_codec(item: _Codec) -> _Codec:
    def read(value: Any) -> list[Any]:
        return [item.read(each) for each in _array(value) if each is not None]

    return _Codec(read, lambda value: [item.write(each) for each in value])


def _set_codec(item: _Codec) -> _Codec:
    def read(value: Any) -> set[Any]:
        return {item.read(each) for each in _array(value) if each is not None}

    # Sorted, so that equal sets are equal bytes.
    return _Codec(read, lambda value: [item.write(each) for each in sorted(value)])


def _map_codec(key: _Codec, item: _Codec) -> _Codec:
    def read(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise _Unreadable(f"{_kind(value)} where an object should be")
        return {key.read(name): item.read(each) for name, each in value.items() if each is not None}

    return _Codec(read, lambda value: {key.write(name): item.write(each) for name, each in value.items()})


def _key_codec(hint: Any) -> _Codec:
    """Keys come as text; an object key as JSON text."""
    codec = _codec(hint)
    if isinstance(hint, type) and issubclass(hint, tuple):
        return _Codec(lambda text: codec.read(_object_key(text)), lambda value: tuple(codec.write(value).items()))
    return codec


def _object_key(text: str) -> Any:
    try:
        return parse_json(text, max_depth=4, max_members=64)
    except RemoteProtocolError as exc:
        raise _Unreadable(f"a key is no object: {exc}") from exc


def _tuple_codec(hint: Any) -> _Codec:
    """An object made of the fields of a NamedTuple, in alphabetical order."""
    hints = typing.get_type_hints(hint)
    fields = sorted((camel_case(name), name, _codec(hints[name])) for name in hint._fields)

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _Unreadable(f"{_kind(value)} where an object should be")
        found = {}
        for json_name, name, codec in fields:
            if value.get(json_name) is None:
                raise _Unreadable(f"the member {json_name} is missing")
            found[name] = codec.read(value[json_name])
        return hint(**found)

    def write(value: Any) -> dict[str, Any]:
        return {json_name: codec.write(getattr(value, name)) for json_name, name, codec in fields}

    return _Codec(read, write)


def _enum_codec(kind: type[enum.Enum]) -> _Codec:
    def read(value: Any) -> enum.Enum | None:
        if isinstance(value, str):
            return kind.__members__.get(value)
        raise _Unreadable(f"{_kind(value)} where the name of a {kind.__name__} should be")

    return _Codec(read, lambda value: value.name)


# --- scalars ---------------------------------------------------------------------------------------------


def _array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _Unreadable(f"{_kind(value)} where an array should be")
    return value


def _kind(value: Any) -> str:
    return "an object" if isinstance(value, dict) else "an array" if isinstance(value, list) else f"{value!r:.60}"


def _read_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        return write_json(value)
    raise _Unreadable(f"{_kind(value)} where text should be")


def _int_reader(bits: int) -> _Reader:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def read(value: Any) -> int:
        number = value
        if isinstance(value, str):
            number = int(value) if len(value) <= 20 and value.removeprefix("-").isdecimal() else None
        elif isinstance(value, float):
            number = int(value) if value.is_integer() else None
        if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
            raise _Unreadable(f"{_kind(value)} is not a number of {bits} bits")
        return number

    return read


def _read_boolean(value: Any) -> bool:
    if isinstance(value, str):
        value = {"true": True, "false": False, "1": True, "0": False}.get(value.lower())
    if value not in (True, False):
        raise _Unreadable(f"{_kind(value)} is neither true nor false")
    return bool(value)


def _read_float(value: Any) -> float:
    try:
        if isinstance(value, (int, float)) or (isinstance(value, str) and len(value) <= 64):
            return float(value)
    except (ValueError, OverflowError) as exc:
        raise _Unreadable(f"{_kind(value)} is not a number") from exc
    raise _Unreadable(f"{_kind(value)} is not a number")


def _read_bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_read_text(value), validate=True)
    except binascii.Error as exc:
        raise _Unreadable(f"not base64: {exc}") from exc


_SCALARS: dict[Any, _Codec] = {
    str: _Codec(_read_text, str),
    int: _Codec(_int_reader(64), int),
    bool: _Codec(_read_boolean, bool),
    float: _Codec(_read_float, float),
    bytes: _Codec(_read_bytes, lambda value: base64.b64encode(value).decode()),
    Any: _Codec(lambda value: value, lambda value: value),
}
