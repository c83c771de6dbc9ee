"""Short texts for interactive use: what a `repr` shows of an object with many fields. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sized
from typing import Any, ClassVar, Final

import attrs

__all__ = ["MOST", "Short", "cut", "joined"]

MOST: Final = 110
"""Characters of a repr: one line of a terminal, with the prompt or a name before it."""
_MOST_OF_ONE: Final = 40


class Short:
    """A repr in one line, as a base class of attrs classes without a repr of their own.

    It shows the fields that differ from their defaults, or, without a default, from zero and nothing: first those of
    `_shown_first`, then the others in their order. Fields with ``repr=False`` are left out, and collections that are
    long are counted.
    """

    __slots__ = ()
    _shown_first: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        """The class, and those of its fields that say something."""
        by_name: dict[str, attrs.Attribute[Any]] = attrs.fields_dict(type(self))  # type: ignore[arg-type]  # it is one
        fields = [by_name[name] for name in dict.fromkeys((*self._shown_first, *by_name))]
        values = ((field, getattr(self, field.name)) for field in fields if field.repr is not False)
        told = (f"{field.name}={_text(value)}" for field, value in values if _tells(field, value))
        return joined(type(self).__name__, told)


def joined(name: str, parts: Iterable[str]) -> str:
    """``name(part, part)``, with as many parts as fit."""
    text, room = "", MOST - len(name) - len("(, ...)")
    for part in parts:
        longer = f"{text}, {part}" if text else part
        if len(longer) > room:
            return f"{name}({text}, ...)" if text else f"{name}(...)"
        text = longer
    return f"{name}({text})"


def cut(text: str, most: int = MOST) -> str:
    """The text, with its end left out if it is longer than that."""
    if len(text) <= most:
        return text
    end = "...>" if text[-1] == ">" else "..."
    return f"{text[: most - len(end)]}{end}"


def _tells(field: attrs.Attribute[Any], value: Any) -> bool:
    default: Any = field.default
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # a class to isinstance, a function to mypy
        default = None if default.takes_self else default.factory()
    if default is None or default is attrs.NOTHING:
        return not (value is None or (isinstance(value, Sized) and not len(value)) or _is_zero(value))
    return value is not default and bool(value != default)


def _is_zero(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool | enum.Enum) and value == 0


def _text(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    if isinstance(value, str | bytes):
        return cut(repr(value[:_MOST_OF_ONE]), _MOST_OF_ONE)
    if hasattr(value, "_fields"):
        return cut(str(value), _MOST_OF_ONE)
    if isinstance(value, Sized) and len(value) > 3:
        return f"<{len(value)} entries>"
    text = repr(value)
    if len(text) <= _MOST_OF_ONE:
        return text
    if not isinstance(value, Sized):
        return f"<{type(value).__name__}>"
    return f"<{len(value)} entries>" if len(value) > 1 else "<1 entry>"
