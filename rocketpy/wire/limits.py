"""Bounds on what is read from a peer, in one place.

They may be lowered, never raised past what the protocol carries.
"""

from __future__ import annotations

import attrs

__all__ = ["DEFAULT_LIMITS", "REQUEST_LIMITS", "SMALL_REQUEST_LIMITS", "WireLimits"]


@attrs.frozen(kw_only=True)
class WireLimits:
    """Sizes and depths that are checked before anything is allocated."""

    max_frame: int = 16 * 1024 * 1024
    """Bytes of a frame, its four length bytes included."""
    max_header: int = 1024 * 1024
    """Bytes of a header."""
    max_ext_fields: int = 4096
    """Entries in the extension map of a header."""
    max_header_depth: int = 32
    """Nesting of a JSON header."""
    max_body_depth: int = 64
    """Nesting of a JSON body."""
    max_body_members: int = 200_000
    """Members and elements of a JSON body, over all levels."""
    max_json_body: int = 16 * 1024 * 1024
    """Bytes that the text of a JSON body takes in memory: see `size_of_json`."""
    max_inflated: int = 32 * 1024 * 1024
    """Bytes of a message body after decompression."""

    @staticmethod
    def size_of_json(data: bytes) -> int:
        """What the text of a body takes: Python keeps all characters of a text as wide as its widest.

        A text with one character outside Unicode's first 65,536 takes four bytes for each of the others, and what is
        read from it takes as much again: it counts six times. Any other text that is not ASCII counts twice.
        """
        if data.isascii():
            return len(data)
        if any(byte in data for byte in _LEADS_OF_FOUR):
            return len(data) * 6
        return len(data) * 2


_LEADS_OF_FOUR = tuple(bytes([lead]) for lead in range(0xF0, 0xF5))
"""First bytes of characters that take four bytes of UTF-8."""

DEFAULT_LIMITS = WireLimits()
"""What a client takes of the servers that it asks."""
REQUEST_LIMITS = WireLimits(max_body_members=50_000)
"""What a server takes of a peer, in a JSON body that lists things. Objects are large in Python: these 50,000
members take at most 16 MiB and four times the bytes that they came in, typed objects included."""
SMALL_REQUEST_LIMITS = WireLimits(max_json_body=1024 * 1024, max_body_members=2_000)
"""What a server takes in a JSON body that is about one thing. It may be read at once: that takes at most 20 ms."""
