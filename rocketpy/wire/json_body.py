"""Declare a JSON body once: its members, their types, their names. Reading and writing follow from that.

    @body
    class QueueData(Body):
        broker_name: str
        perm: Int32 = 6
        read_queue_nums: Int32 = member(default=16, also=("readQueues",))

A member travels under the camel-case form of its name, or under `name`; on reading the names in `also` count too.
Annotations say the type: str, int (64 bits), `Int32`, bool, float, bytes (base64), Any (JSON as it is), an
enumeration, another body, a NamedTuple (an object of its fields), list, set, and dict with keys of str, int
or a NamedTuple (Java's object keys), each of them optional with `| None`. A member without a default must be there.
As fastjson does, we write members in alphabetical order without those that are None; we read numbers for text and
text for numbers, enumerations by number, one object for an array of one, and names of members without regard to case,
"_" and "-"; what is not declared is ignored. Plays the part of RemotingSerializable.
"""

from __future__ import annotations

import enum
import itertools
import types
import typing
from collections.abc import Callable, Generator, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar, cast, dataclass_transform

import attrs

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.declared import Declared, declared, finish
from rocketpy.wire.fields import camel_case
from rocketpy.wire.json_refs import resolve_refs
from rocketpy.wire.json_scalars import (
    SCALARS,
    Codec,
    Reader,
    Steps,
    Unreadable,
    Writer,
    array,
    enum_codec,
    int_reader,
    object_of,
)
from rocketpy.wire.lenient_json import parse_json, parse_json_steps, write_json
from rocketpy.wire.limits import DEFAULT_LIMITS, REQUEST_LIMITS, WireLimits
from rocketpy.wire.steps import run_steps

__all__ = ["Body", "Int32", "body", "member"]

Int32 = Annotated[int, 32]
"""A number that must fit 32 bits, Java's int."""

_NAMES = "rocketpy.wire.names"
_AT_ONCE = 256
"""Scalars that are read in one step."""
_UNKNOWN_NAMES = 256
"""Names of one object that are looked at a second time, for another spelling of a member's name."""


class _Member(NamedTuple):
    """How one member travels."""

    attribute: str
    """Its name in the class."""
    names: tuple[str, ...]
    """The name it is written under, then the others it is read under."""
    read: Reader
    """Makes the value from what the JSON has."""
    write: Writer
    """Makes what the JSON has from the value."""
    steps: Steps | None
    """Reads a large value in steps; None if it is read at once."""
    required: bool
    """Whether it has no default."""
    is_truth: bool
    """Whether it is a plain `bool`."""


# --- the declaration -----------------------------------------------------------------------------------


def member(
    *,
    default: Any = attrs.NOTHING,
    factory: Callable[[], Any] | None = None,
    name: str | None = None,
    also: tuple[str, ...] = (),
) -> Any:
    """A member with a default that is made for each object, or with another name than its attribute's."""
    return _Specified(default if factory is None else attrs.Factory(factory), name, also)


class _Specified(NamedTuple):
    default: Any
    """What `attrs.field` takes as its default."""
    name: str | None
    """The member's name in JSON; None for that of the attribute, in camel case."""
    also: tuple[str, ...]
    """Other names of the member."""


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
        _check_size(cls, data, limits)
        value = parse_json(data, max_depth=limits.max_body_depth, max_members=limits.max_body_members)
        if b'"$ref"' in data:
            value = run_steps(resolve_refs(value, limits.max_body_members))
        return cls.from_json(value)

    @classmethod
    def decode_steps(cls, data: bytes, *, limits: WireLimits = REQUEST_LIMITS) -> Generator[None, None, Self]:
        """`decode` in steps: a generator that returns the body, for those who serve others in between.

        A step takes far less than 1 ms, but for single calls of Python's parser. Raises as `decode`.
        """
        _check_size(cls, data, limits)
        yield
        value = yield from parse_json_steps(data, max_depth=limits.max_body_depth, max_members=limits.max_body_members)
        if b'"$ref"' in data:
            value = yield from resolve_refs(value, limits.max_body_members)
        return (yield from cls.from_json_steps(value))

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
        except Unreadable as exc:
            raise RemoteProtocolError(f"{cls.__name__}: {exc}") from exc

    @classmethod
    def from_json_steps(cls, value: Any) -> Generator[None, None, Self]:
        """`from_json` in steps: a generator that returns the body. It takes `value` apart, to need less memory."""
        try:
            return (yield from _read_body_steps(cls, value))
        except Unreadable as exc:
            raise RemoteProtocolError(f"{cls.__name__}: {exc}") from exc


def _check_size(cls: type[Body], data: bytes, limits: WireLimits) -> None:
    if not data:
        raise RemoteProtocolError(f"{cls.__name__}: the body is missing")
    if (size := limits.size_of_json(data)) > limits.max_json_body:
        raise RemoteProtocolError(
            f"{cls.__name__}: {len(data)} bytes of JSON, which take {size}: the limit is {limits.max_json_body}"
        )


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
        fields = attrs.fields(cast("type[attrs.AttrsInstance]", cls))
        found = [_member(attribute, hints[attribute.name]) for attribute in fields]
        cls._members = tuple(sorted(found, key=lambda each: each.names[0]))
    return cls._members


def _member(attribute: attrs.Attribute[Any], hint: Any) -> _Member:
    name, also = attribute.metadata.get(_NAMES, (None, ()))
    codec = _codec(hint)
    names = (name or camel_case(attribute.name), *also)
    required = attribute.default is attrs.NOTHING
    return _Member(
        attribute=attribute.name,
        names=names,
        read=codec.read,
        write=codec.write,
        steps=codec.steps,
        required=required,
        is_truth=codec is SCALARS[bool],
    )


def _read_body(cls: type[BodyType], value: Any) -> BodyType:
    found = {}
    for each, raw in _raw_members(cls, object_of(value)):
        try:
            item = each.read(raw)
        except Unreadable as exc:
            raise Unreadable(f"{each.names[0]}: {exc}") from exc
        if item is not None:
            found[each.attribute] = item
    return _made(cls, found)


def _read_body_steps(cls: type[BodyType], value: Any) -> Generator[None, None, BodyType]:
    found = {}
    for each, raw in _raw_members(cls, object_of(value)):
        try:
            item = each.read(raw) if each.steps is None else (yield from each.steps(raw))
        except Unreadable as exc:
            raise Unreadable(f"{each.names[0]}: {exc}") from exc
        if item is not None:
            found[each.attribute] = item
    value.clear()
    return _made(cls, found)


def _made(cls: type[BodyType], found: dict[str, Any]) -> BodyType:
    for each in members_of(cls):
        if each.required and each.attribute not in found:
            raise Unreadable(f"the member {each.names[0]} is missing")
    return cls(**found)


def _raw_members(cls: type[Body], value: dict[str, Any]) -> list[tuple[_Member, Any]]:
    """The members of a body for which an object has a value, with that value."""
    found = []
    absent = []
    for each in members_of(cls):
        raw = next((value[name] for name in each.names if value.get(name) is not None), None)
        if raw is not None:
            found.append((each, raw))
        elif each.names[0] not in value:
            absent.append(each)
    if absent and len(value) > len(found):
        found += _in_another_spelling(absent, value)
    return found


def _in_another_spelling(absent: Sequence[_Member], value: dict[str, Any]) -> list[tuple[_Member, Any]]:
    """Members whose names differ in case, "_" and "-" only, or by the "is" of Java's questions."""
    wanted = {_folded(name): each for each in absent for name in each.names}
    wanted.update({f"is{name}": each for name, each in wanted.items() if each.is_truth})
    found: dict[str, tuple[_Member, Any]] = {}
    for name, raw in itertools.islice(value.items(), _UNKNOWN_NAMES):
        each = wanted.get(_folded(name)) if raw is not None and len(name) <= 128 else None
        if each is not None:
            found[each.attribute] = each, raw
    return list(found.values())


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


# --- types -> readers and writers ------------------------------------------------------------------------


def _codec(hint: Any) -> Codec:
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
        return Codec(int_reader(arguments[1]), int)
    return _plain_codec(hint)


def _plain_codec(hint: Any) -> Codec:
    if hint in SCALARS:
        return SCALARS[hint]
    if isinstance(hint, type) and issubclass(hint, Body):
        return _body_codec(hint)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return enum_codec(hint)
    if isinstance(hint, type) and issubclass(hint, tuple):
        return _tuple_codec(hint)
    raise TypeError(f"{hint!r} cannot be a member of a JSON body")


def _body_codec(kind: type[Body]) -> Codec:
    return Codec(
        lambda value: _read_body(kind, value),
        lambda value: value.to_json(),
        lambda value: _read_body_steps(kind, value),
    )


def _array_codec(item: Codec) -> Codec:
    def elements(value: Any) -> list[Any]:
        # One object may stand for an array of it.
        return [value] if item.steps is not None and isinstance(value, dict) else array(value)

    def read(value: Any) -> list[Any]:
        return [found for each in elements(value) if each is not None and (found := item.read(each)) is not None]

    def steps(value: Any) -> Generator[None, None, list[Any]]:
        found: list[Any] = []
        yield from _each(elements(value), item, found.append)
        return found

    return Codec(read, lambda value: [item.write(each) for each in value], steps)


def _set_codec(item: Codec) -> Codec:
    def read(value: Any) -> set[Any]:
        return {found for each in array(value) if each is not None and (found := item.read(each)) is not None}

    def steps(value: Any) -> Generator[None, None, set[Any]]:
        found: set[Any] = set()
        yield from _each(array(value), item, found.add)
        return found

    # Sorted, so that equal sets are equal bytes.
    return Codec(read, lambda value: [item.write(each) for each in sorted(value)], steps)


def _each(values: list[Any], item: Codec, put: Callable[[Any], object]) -> Generator[None, None, None]:
    """Read the elements of an array one after the other, and let go of them."""
    for index, each in enumerate(values):
        values[index] = None
        found = each if each is None else item.read(each) if item.steps is None else (yield from item.steps(each))
        if found is not None:
            put(found)
        if item.steps is not None or not index % _AT_ONCE:
            yield


def _map_codec(key: Codec, item: Codec) -> Codec:
    def read(value: Any) -> dict[Any, Any]:
        pairs = ((key.read(name), item.read(each)) for name, each in object_of(value).items() if each is not None)
        return {name: found for name, found in pairs if name is not None and found is not None}

    def steps(value: Any) -> Generator[None, None, dict[Any, Any]]:
        found: dict[Any, Any] = {}
        raw = object_of(value)
        for index, name in enumerate(list(raw)):
            each = raw.pop(name)
            made = each if each is None else item.read(each) if item.steps is None else (yield from item.steps(each))
            if made is not None and (read_name := key.read(name)) is not None:
                found[read_name] = made
            if item.steps is not None or not index % _AT_ONCE:
                yield
        return found

    return Codec(read, lambda value: {key.write(name): item.write(each) for name, each in value.items()}, steps)


def _key_codec(hint: Any) -> Codec:
    """Keys come as text; an object key as JSON text."""
    codec = _codec(hint)
    if isinstance(hint, type) and issubclass(hint, tuple):
        return Codec(lambda text: codec.read(_object_key(text)), lambda value: tuple(codec.write(value).items()))
    return codec


def _object_key(text: str) -> Any:
    try:
        return parse_json(text, max_depth=4, max_members=64)
    except RemoteProtocolError as exc:
        raise Unreadable(f"a key is not an object: {exc}") from exc


def _tuple_codec(hint: Any) -> Codec:
    """An object made of the fields of a NamedTuple, in alphabetical order."""
    hints = typing.get_type_hints(hint)
    fields = sorted((camel_case(name), name, _codec(hints[name])) for name in hint._fields)

    def read(value: Any) -> Any:
        found = {}
        for json_name, name, codec in fields:
            raw = object_of(value).get(json_name)
            item = None if raw is None else codec.read(raw)
            if item is None:
                raise Unreadable(f"the member {json_name} is missing")
            found[name] = item
        return hint(**found)

    def write(value: Any) -> dict[str, Any]:
        return {json_name: codec.write(getattr(value, name)) for json_name, name, codec in fields}

    return Codec(read, write)
