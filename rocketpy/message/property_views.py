"""The properties of a message in two parts, as views: the user's, and RocketMQ's own.

A message has one dict with all its properties, by their names on the wire. A view looks at one part of it and stores
nothing, so it shows every change of the dict, and a message pays nothing for views until it is asked for one. A message
whose properties are assigned gets a new dict: views from before show the old one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, MutableMapping
from itertools import filterfalse
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar, overload

from rocketpy.message.property_checks import put_user_properties
from rocketpy.message.property_names import RESERVED_PROPERTIES

__all__ = ["ReceivedProperties", "SystemProperties", "UserProperties"]

T = TypeVar("T")

_is_reserved: Final = RESERVED_PROPERTIES.__contains__


class _View(Mapping[str, str]):
    """What all views have in common with a dict besides reading: the short form, `|` and `copy`.

    A copied or pickled view is a dict, because it would be of no use apart from its message.
    """

    __slots__ = ("_wire",)

    _fixed: ClassVar[str]
    """What is said where somebody tries to change it."""

    def __init__(self, wire: dict[str, str]) -> None:
        self._wire = wire

    if not TYPE_CHECKING:  # type checkers know that there are no such methods

        def __setitem__(self, name: str, value: str) -> None:
            raise TypeError(self._fixed)

        def __delitem__(self, name: str) -> None:
            raise TypeError(self._fixed)

    @abstractmethod
    def copy(self) -> dict[str, str]:
        """Return these properties as a dict of their own."""

    def __repr__(self) -> str:
        """As the dict."""
        return repr(self.copy())

    def __or__(self, other: Mapping[str, str]) -> dict[str, str]:
        """A dict of these properties and others; the others win."""
        if not isinstance(other, Mapping):
            return NotImplemented
        return self.copy() | dict(other)

    def __ror__(self, other: Mapping[str, str]) -> dict[str, str]:
        """A dict of others and these properties; these win."""
        if not isinstance(other, Mapping):
            return NotImplemented
        return dict(other) | self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)


class ReceivedProperties(_View):
    """The user's properties of a message that was received: a mapping that cannot be changed."""

    __slots__ = ()

    _fixed = (
        "the properties of a received message cannot be changed: to send it on, make a new Message with "
        "properties={**message.properties, ...}"
    )

    def __getitem__(self, name: str) -> str:
        if name in RESERVED_PROPERTIES:
            raise _not_here(name)
        return self._wire[name]

    # The rest would work without these, but several times as slowly.

    @overload
    def get(self, name: str, /) -> str | None: ...

    @overload
    def get(self, name: str, /, default: str | T) -> str | T: ...

    def get(self, name: str, /, default: Any = None) -> Any:
        """The value of a property; `default` if there is none."""
        return default if name in RESERVED_PROPERTIES else self._wire.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._wire and name not in RESERVED_PROPERTIES

    def __iter__(self) -> Iterator[str]:
        return filterfalse(_is_reserved, self._wire)

    def __len__(self) -> int:
        wire = self._wire
        return len(wire) - len(RESERVED_PROPERTIES.intersection(wire))

    def copy(self) -> dict[str, str]:
        """Return these properties as a dict of their own."""
        return {name: value for name, value in self._wire.items() if name not in RESERVED_PROPERTIES}


class UserProperties(ReceivedProperties, MutableMapping[str, str]):
    """The user's properties of a message to send. Names and values are checked as those are that Message is given."""

    __slots__ = ()

    def __setitem__(self, name: str, value: str) -> None:
        put_user_properties(self._wire, {name: value})

    def __delitem__(self, name: str) -> None:
        if name in RESERVED_PROPERTIES:
            raise _not_here(name)
        del self._wire[name]

    def __ior__(self, other: Mapping[str, str]) -> Self:  # type: ignore[override]  # in place, where `|` makes a dict
        self.update(other)
        return self


class SystemProperties(_View):
    """RocketMQ's own properties of a message: a mapping that cannot be changed."""

    __slots__ = ()

    _fixed = (
        "RocketMQ's own properties cannot be changed: Message has arguments for those that programs choose, such as "
        "tags= and keys="
    )

    def __getitem__(self, name: str) -> str:
        if name not in RESERVED_PROPERTIES:
            raise KeyError(f"{name!r:.100} is no name of RocketMQ's own properties: look in `properties`")
        return self._wire[name]

    def __iter__(self) -> Iterator[str]:
        return filter(_is_reserved, self._wire)

    def __len__(self) -> int:
        return len(RESERVED_PROPERTIES.intersection(self._wire))

    def copy(self) -> dict[str, str]:
        """Return these properties as a dict of their own."""
        return {name: value for name, value in self._wire.items() if name in RESERVED_PROPERTIES}


def _not_here(name: str) -> KeyError:
    return KeyError(f"{name!r} is a name of RocketMQ's own properties: look in `system_properties`")
