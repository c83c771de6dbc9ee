"""A serializer as users write one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

__all__ = ["Shouting"]


def _shout(value: Any) -> bytes:
    shouted: bytes = value.upper().encode()
    return shouted


@attrs.frozen
class Shouting:
    """Writes texts in capital letters; reads them back in small ones, and says by which object."""

    content_type: Any = "text/loud"
    encode: Callable[[Any], Any] = _shout
    name: str = "shouting"

    def decode(self, body: bytes) -> object:
        return body.decode().lower(), self
