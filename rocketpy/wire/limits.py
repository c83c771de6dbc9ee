"""Bounds on what is read from a peer, in one place.

They may be lowered, never raised past what the protocol carries.
"""

from __future__ import annotations

import attrs

__all__ = ["DEFAULT_LIMITS", "WireLimits"]


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
    """Bytes of a JSON body."""
    max_inflated: int = 32 * 1024 * 1024
    """Bytes of a message body after decompression."""


DEFAULT_LIMITS = WireLimits()
