"""Frames byte by byte: what an honest encoder would refuse to write has to be sent, too."""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Mapping

from rocketpy.wire.codes import CURRENT_VERSION, LanguageCode
from rocketpy.wire.limits import DEFAULT_LIMITS, REQUEST_LIMITS

MIB = 1024 * 1024
MAX_FRAME = DEFAULT_LIMITS.max_frame
MAX_HEADER = DEFAULT_LIMITS.max_header
MAX_FIELDS = DEFAULT_LIMITS.max_ext_fields
MAX_MEMBERS = REQUEST_LIMITS.max_body_members
BEYOND_MEMBERS = DEFAULT_LIMITS.max_body_members
MAX_DEPTH = DEFAULT_LIMITS.max_body_depth
HEADER_ROOM = 4096
"""What a largest body leaves to its header."""
LARGEST_BODY = MAX_FRAME - HEADER_ROOM
ONEWAY = 2

_WORDS = struct.Struct(">iI")
_opaques = itertools.count(1)


def raw(header: bytes, body: bytes = b"", *, kind: int = 0) -> bytes:
    """A frame of these parts, whatever they are."""
    return b"".join((_WORDS.pack(4 + len(header) + len(body), kind << 24 | len(header)), header, body))


def header_text(code: int, ext: Mapping[str, object], *, flag: int = 0, version: int = CURRENT_VERSION) -> str:
    """A JSON header with an opaque of its own."""
    members = {
        "code": code,
        "extFields": ext,
        "flag": flag,
        "language": "JAVA",
        "opaque": next(_opaques),
        "serializeTypeCurrentRPC": "JSON",
        "version": version,
    }
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"))


def request(code: int, ext: Mapping[str, object] | None = None, body: bytes = b"", **more: int) -> bytes:
    """One request in JSON."""
    return raw(header_text(code, ext or {}, **more).encode(), body)


def binary(code: int, ext: Mapping[str, str], body: bytes = b"") -> bytes:
    """One request whose header is in the binary form."""
    parts = []
    for name, value in ext.items():
        key, text = name.encode(), value.encode()
        parts += [struct.pack(">h", len(key)), key, struct.pack(">i", len(text)), text]
    fields = b"".join(parts)
    short = (code & 0xFFFF ^ 0x8000) - 0x8000  # as Java cuts it
    fixed = struct.pack(">hBhii", short, LanguageCode.JAVA, CURRENT_VERSION, next(_opaques), 0)
    return raw(fixed + struct.pack(">ii", 0, len(fields)) + fields, body, kind=1)


def opaque_of(frame: bytes) -> int:
    """The number of a frame that `request` or `binary` made."""
    length = struct.unpack_from(">I", frame, 4)[0]
    if length >> 24:
        return int(struct.unpack_from(">i", frame, 8 + 5)[0])
    return int(json.loads(frame[8 : 8 + length])["opaque"])
