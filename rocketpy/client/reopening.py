"""What may be made again in the child of a fork, from the arguments that it was made with."""

from __future__ import annotations

from typing import Any, NoReturn

from rocketpy.client.lifecycle import NotPicklable
from rocketpy.errors import ClientClosedError

__all__ = ["Reopenable"]


class Reopenable(NotPicklable):
    """Base of what remembers how it was made.

    In a child everything of the parent is a copy that nobody serves: locks may be held by threads that are not there,
    and sockets belong to the parent. So nothing of it is mended; the object is made again in its place, for code that
    holds it to go on with it.
    """

    _made_with: dict[str, Any]
    """The arguments of `__init__`."""

    def _make_again(self, *, crossed_fork: bool) -> None:
        """Become as new.

        Raises:
            ClientClosedError: this is the process in which it was made.
        """
        if not crossed_fork:
            _refuse(self)
        type(self).__init__(self, **self._made_with)


def _refuse(thing: object) -> NoReturn:
    raise ClientClosedError(
        f"{thing!r} was made in this process: reopen() works only in the child of a fork; make a new one here"
    )
