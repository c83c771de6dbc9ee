"""Reopenable: objects that can be made again in the child of a fork, from their original arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from rocketpy.client.lifecycle import NotPicklable
from rocketpy.errors import ClientClosedError

__all__ = ["AsyncReopenable", "Reopenable"]


class Reopenable(NotPicklable):
    """Base class of objects that remember the arguments they were made with.

    In a child, the parent's objects are copies that no thread serves: locks may be held by threads that do not exist
    there, and sockets belong to the parent. So the object's parts are not repaired: the same object is initialised
    again, so that code which refers to it can continue.
    """

    _made_with: dict[str, Any]
    """The arguments of `__init__`."""

    def _make_again(self, *, crossed_fork: bool) -> None:
        """Initialise it again.

        Raises:
            ClientClosedError: this is the process in which it was made.
        """
        if not crossed_fork:
            _refuse(self)
        type(self).__init__(self, **self._made_with)


class AsyncReopenable(Reopenable):
    """Base class of those that are entered with `async with`: `with` says so."""

    if not TYPE_CHECKING:  # type checkers say it by themselves, of classes without these methods

        def __enter__(self) -> NoReturn:
            """Refuse it.

            Raises:
                TypeError: always.
            """
            name = type(self).__name__
            raise TypeError(
                f"{name} is entered with `async with`, in async code; in blocking code, use rocketpy.sync.{name}"
            )

        def __exit__(self, *_: object) -> None:
            """Never called."""


def _refuse(thing: object) -> NoReturn:
    raise ClientClosedError(
        f"{thing!r} was made in this process: reopen() works only in the child of a fork; make a new one here"
    )
