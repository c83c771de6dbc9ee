"""Classes made of keyword fields, finished on first use: a program that speaks ten kinds of request pays for ten.

What attrs generates for a class is compiled, and takes fifty times as long as the class itself. So a declaration makes
a class with slots and nothing else; its first instance, or the first question about its fields, lets attrs do the rest
in place. From then on it is a class of attrs like any other. Not for classes that need arguments of attrs other than
`kw_only`, and not for methods that use `super()` without arguments. Plays the part of no class of Java's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import attrs

__all__ = ["Declared", "FieldMaker", "OnFirstUse", "declared", "finish"]

T = TypeVar("T")
FieldMaker = Callable[[Any], Any]
"""Turns what stands behind a field in the class body into a field of attrs."""

_PENDING = "_pending_fields"
_OWN_BY_NATURE = frozenset({"__dict__", "__weakref__"})


class _Pending(NamedTuple):
    """What there is still to do for a class."""

    fields: Mapping[str, Any]
    """Name of each field to what the class says behind it; `attrs.NOTHING` if it says nothing."""
    make_field: FieldMaker
    """Makes the field of attrs of what stands behind a name."""
    finished: Callable[[Any], None] | None
    """Called with the finished class, if there is anything to call."""


class OnFirstUse:
    """A class variable that comes with the finished class: asking for it finishes the class, which puts it in place."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        """The value."""
        finish(owner)
        return vars(owner)[self._name]


class Declared:
    """Base of what is declared: compares and describes itself by its fields; nothing is compiled for that."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Whether the other is of the very same class with equal fields. So there is no hash."""
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _names(type(self)))

    def __repr__(self) -> str:
        """The class with its fields."""
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in _names(type(self)))})"


def _names(cls: type) -> list[str]:
    return [field.name for field in attrs.fields(cls)]


def declared(
    cls: type[T],
    make_field: FieldMaker,
    *,
    finished: Callable[[type[T]], None] | None = None,
    later: Iterable[str] = (),
) -> type[T]:
    """Make the class with slots for the fields that its body annotates.

    Args:
        cls: The class as it was written.
        make_field: Called for each field that has something behind it, when the class is finished.
        finished: Called with the finished class.
        later: Names of class variables that `finished` sets.
    """
    annotations = vars(cls).get("__annotations__", {})
    names = [name for name, kind in annotations.items() if not str(kind).startswith("ClassVar")]
    inherited = {name for base in cls.__mro__[1:] for name in getattr(base, "__slots__", ())}
    namespace = {name: value for name, value in vars(cls).items() if name not in _OWN_BY_NATURE}
    given = {name: namespace.pop(name) for name in names if name in namespace}
    namespace["__slots__"] = tuple(name for name in names if name not in inherited)
    namespace["__init__"] = _finish_and_init
    namespace[_PENDING] = _Pending({name: given.get(name, attrs.NOTHING) for name in names}, make_field, finished)
    namespace.update({name: OnFirstUse(name) for name in later})
    made: type[T] = type(cls.__name__, cls.__bases__, namespace)
    return made


def finish(cls: type) -> None:
    """Let attrs complete a declared class and those it is derived from; nothing when that is done.

    Two threads may do it at once: each does all of it, and the result is the same.
    """
    for each in reversed(cls.__mro__):
        pending: _Pending | None = vars(each).get(_PENDING)
        if pending is not None:
            these = {name: _field(value, pending.make_field) for name, value in pending.fields.items()}
            attrs.define(these=these, init=True, eq=False, repr=False, kw_only=True, slots=False)(each)
            if pending.finished is not None:
                pending.finished(each)
            setattr(each, _PENDING, None)


def _field(value: Any, make: FieldMaker) -> Any:
    return attrs.field() if value is attrs.NOTHING else make(value)


def _finish_and_init(self: Any, **values: Any) -> None:
    finish(type(self))
    self.__init__(**values)
