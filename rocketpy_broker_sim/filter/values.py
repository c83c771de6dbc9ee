"""Values as in Java: how a string is read as a number, and how two values compare.

Properties are always strings. A string that is compared with a number is read as a number of the same type, so "5.5",
which is not a whole number, matches no comparison with one. Plays ComparisonExpression.__compare.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from rocketpy_broker_sim.filter.errors import EvaluationError

__all__ = ["Number", "Value", "compare_texts", "equals", "order", "read_double", "read_int", "read_long"]

_WHOLE = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?"
    r"|(0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?)",
    re.ASCII,
)
_BLANKS = "".join(map(chr, range(33)))
LONGEST_NUMBER = 128
"""Longest string that is read as a number; a longer one is refused at once, to save time."""
_SURE_DIGITS = 9
"""Numbers with this many digits always fit into 32 bits."""
_MOST_DIGITS = 20
_DOUBLE_BITS = struct.Struct(">d")
_LONG_BITS = struct.Struct(">q")


class Number(NamedTuple):
    """A number in an expression.

    Attributes:
        value: Its value; a float stands for a double of Java.
        read: Reads a string as a number of the same type.
    """

    value: int | float
    read: Callable[[str], int | float]


Value: TypeAlias = str | bool | Number | None


# --- reading -------------------------------------------------------------------------------------------


def read_int(text: str) -> int:
    """Read a whole number of 32 bits.

    Raises:
        EvaluationError: the text is not one.
    """
    if len(text) <= _SURE_DIGITS and text.isascii() and text.isdecimal():
        return int(text)
    return _whole(text, 31)


def read_long(text: str) -> int:
    """Read a whole number of 64 bits.

    Raises:
        EvaluationError: the text is not one.
    """
    if len(text) <= _SURE_DIGITS and text.isascii() and text.isdecimal():
        return int(text)
    return _whole(text, 63)


def _whole(text: str, bits: int) -> int:
    # Digits of all scripts count, as in Java, except those beyond 16 bits, of which Java sees two surrogates.
    if len(text) > LONGEST_NUMBER or _WHOLE.fullmatch(text) is None or (not text.isascii() and max(text) > "\uffff"):
        raise EvaluationError(f"{text[:40]!r} is not a whole number")
    if len(text) > _MOST_DIGITS:
        sign = "-" if text[0] == "-" else ""
        text = sign + "".join(str(int(digit)) for digit in text.lstrip("+-")).lstrip("0")
        text = text if len(text) > len(sign) else "0"
    number = int(text) if len(text) <= _MOST_DIGITS + 1 else 1 << 64
    if not -(1 << bits) <= number < 1 << bits:
        raise EvaluationError(f"{text[:40]!r} is too large a number")
    return number


def read_double(text: str) -> float:
    """Read a double, also in hexadecimal, or NaN or Infinity.

    Raises:
        EvaluationError: the text is not one.
    """
    trimmed = text.strip(_BLANKS)
    found = _DOUBLE.fullmatch(trimmed) if len(trimmed) <= LONGEST_NUMBER else None
    if found is None:
        raise EvaluationError(f"{text[:40]!r} is not a number")
    if found[1] is not None:
        try:
            return float.fromhex(trimmed.rstrip("fFdD") if trimmed[-1] in "fFdD" else trimmed)
        except OverflowError:
            return float("-inf" if trimmed.startswith("-") else "inf")
    return float(trimmed[:-1] if trimmed[-1] in "fFdD" else trimmed)


# --- comparing -----------------------------------------------------------------------------------------


def order(left: float, right: float) -> int:
    """Compare two numbers: negative, zero or positive. Among doubles, NaN is the largest, and -0.0 is below 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    if isinstance(left, int) and isinstance(right, int):
        return 0
    first, second = _bits(left), _bits(right)
    return (first > second) - (first < second)


def _bits(number: float) -> int:
    """The bits of a double as a whole number, which Double.compareTo compares if neither double is larger."""
    if math.isnan(number):
        return 0x7FF8000000000000  # all NaNs are equal
    found: int = _LONG_BITS.unpack(_DOUBLE_BITS.pack(number))[0]
    return found


def compare_texts(left: str, right: str) -> int:
    """Compare two properties by size, as doubles.

    Raises:
        EvaluationError: one of them is not a number.
    """
    return order(read_double(left), read_double(right))


def compare_numbers(left: Number, right: Number) -> int:
    """Compare two numbers of any types."""
    if isinstance(left.value, float) or isinstance(right.value, float):
        return order(float(left.value), float(right.value))
    return order(left.value, right.value)


def equals(left: Value, right: Value) -> bool | None:
    """Whether two values are equal; None if only the left one is missing.

    Raises:
        EvaluationError: a string cannot be read as the type that it is compared with.
    """
    if left is None:
        return True if right is None else None
    if right is None:
        return False
    if isinstance(left, str):
        if isinstance(right, str):
            return left == right
        if isinstance(right, bool):
            return (left.lower() == "true") is right
        return order(right.read(left), right.value) == 0
    if isinstance(left, bool):
        if isinstance(right, str):
            raise EvaluationError("a boolean on the left cannot be compared with a string: swap the two sides")
        return left is right
    if isinstance(right, str):
        return order(left.value, left.read(right)) == 0
    return not isinstance(right, bool) and compare_numbers(left, right) == 0
