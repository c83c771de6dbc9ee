"""WrongWith: what an object says that is entered with the other kind of `with`."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["WrongWith"]


class _WrongWithError(TypeError, AttributeError):
    """A TypeError, as Python raises by itself; and an AttributeError, so that `hasattr` says that there is no such
    method, and libraries that look for it take the other one."""


class WrongWith:
    """Stands for the method that begins `with`, or `async with`, of a class that has the other one only.

    Args:
        text: what to do instead, with `{name}` for the name of the class.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def __get__(self, thing: object, kind: type) -> NoReturn:
        """Refuse it.

        Raises:
            TypeError: always.
        """
        raise _WrongWithError(self._text.format(name=kind.__name__))
