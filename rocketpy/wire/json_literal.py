"""Numbers of JSON that have a fraction or an exponent, and the text that stands for one where text should be."""

from __future__ import annotations

import re
from typing import Self

__all__ = ["MAX_DIGITS", "Literal"]

MAX_DIGITS = 256
"""Characters of a number. Reading one takes time that grows with the square of them."""
_MOST = 2**31 - 1
"""The largest exponent that Java takes."""
_PLAIN_ZEROS = 6
"""Places behind the point that a text begins in at the latest; a smaller number is written with an exponent."""

_PARTS = re.compile(r"([+-]?)([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]+))?")


class Literal(float):
    """A number with a fraction or an exponent, and how it was written: Java keeps all of its digits.

    Attributes:
        literal: The text.
    """

    __slots__ = ("literal",)
    literal: str

    def __new__(cls, literal: str) -> Self:
        """Read it; ValueError when it is no number, or its exponent or the text itself is too long."""
        if len(literal) > MAX_DIGITS:
            raise ValueError(f"number of {len(literal)} characters")
        made = super().__new__(cls, literal)
        made.literal = literal
        if "e" in literal or "E" in literal:
            _parts(literal)
        return made

    @property
    def java_text(self) -> str:
        """What BigDecimal.toString says of it: every digit, and an exponent where many zeros would stand."""
        sign, digits, scale = _parts(self.literal)
        exponent = len(digits) - 1 - scale
        if scale >= 0 and exponent >= -_PLAIN_ZEROS:
            padded = digits.rjust(scale + 1, "0")
            return f"{sign}{padded[:-scale]}.{padded[-scale:]}" if scale else sign + digits
        point = "." if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{point}{digits[1:]}E{exponent:+d}" if exponent else sign + digits


def _parts(literal: str) -> tuple[str, str, int]:
    """A number as sign, digits, and how many of them stand behind the point (negative: zeros that are left out).

    Raises:
        ValueError: Java takes no such exponent.
    """
    match = _PARTS.fullmatch(literal)
    if match is None:
        raise ValueError(f"{literal} is not a decimal number")
    sign, whole, fraction, power = match.groups()
    exponent = int(power or 0)
    scale = len(fraction) - exponent
    if not -_MOST <= exponent <= _MOST or not -_MOST - 1 <= scale <= _MOST:
        raise ValueError(f"{literal} has an exponent of more than 32 bits")
    digits = (whole + fraction).lstrip("0") or "0"
    return "-" if sign == "-" and digits != "0" else "", digits, scale
