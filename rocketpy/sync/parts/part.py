"""Part: what the parts of the blocking Admin have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from rocketpy.admin.part import Part as TrioPart

if TYPE_CHECKING:
    from rocketpy.admin.admin import Admin
    from rocketpy.portal import Portal

__all__ = ["Part", "blocking"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=TrioPart)


class _HasPortal(Protocol):
    """The blocking Admin."""

    @property
    def _portal(self) -> Portal: ...

    @property
    def _inner(self) -> Admin: ...


class Part(Generic[T]):
    """One part of an Admin.

    Args:
        admin: the Admin.
        inner: the part of the trio surface.
    """

    __slots__ = ("_admin", "_inner")

    def __init__(self, admin: _HasPortal, inner: T) -> None:
        self._admin = admin
        self._inner = inner

    def __repr__(self) -> str:
        """Short form for logs."""
        return repr(self._inner)


def blocking(function: Callable[Concatenate[T, P], Awaitable[R]]) -> Callable[Concatenate[Part[T], P], R]:
    """Return a method that runs an async method of the trio surface, and waits for its result."""

    @wraps(function)
    def call(self: Part[T], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._admin._portal.call(function, self._inner, *args, **kwargs)

    return call
