"""Cutting a byte stream into frames and putting frames together. Sans-IO, linear in the bytes, whatever the cuts.

A frame is ``int32 total | byte type, int24 header length | header | body`` where total does not count itself.
Everything that can be told from the first eight bytes is refused before a byte more is kept. Plays the part of
NettyDecoder and NettyEncoder.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.wire.limits import DEFAULT_LIMITS, WireLimits

__all__ = ["SPEAKS_HTTP", "Frame", "FrameDecoder", "encode_frame"]

SPEAKS_HTTP = "the peer speaks HTTP"
"""Begins the text of the error for a peer that sent HTTP."""

_WORDS = struct.Struct(">iI")
_LEAD = 8


class Frame(NamedTuple):
    """One frame, not looked into yet."""

    serialize_type: int
    """0 JSON, 1 ROCKETMQ."""
    header: bytes
    """The header in that form, without its length."""
    body: bytes
    """What follows the header; empty if there is no body."""


def encode_frame(
    serialize_type: int, header: bytes, body: bytes = b"", *, limits: WireLimits = DEFAULT_LIMITS
) -> bytes:
    """Put a frame together.

    Raises:
        LocalProtocolError: the frame would be larger than a peer accepts.
    """
    total = 4 + len(header) + len(body)
    if total + 4 > limits.max_frame or len(header) > 0xFFFFFF:
        raise LocalProtocolError(
            f"a frame of {total + 4} bytes is over the limit of {limits.max_frame}; send less in one request"
        )
    return b"".join((_WORDS.pack(total, serialize_type << 24 | len(header)), header, body))


class FrameDecoder:
    """Feed bytes with `receive_data`, take frames with `frames`.

    The first malformed frame ends the stream: frames before it are still handed out, then every call raises the same
    error.
    """

    def __init__(self, limits: WireLimits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self._buffer: bytes | bytearray = b""
        self._start = 0
        self._error: str | None = None

    @property
    def buffered(self) -> int:
        """Bytes that are kept because their frame is not whole yet."""
        return len(self._buffer) - self._start

    def receive_data(self, data: bytes) -> None:
        """Take bytes as they came from the peer. After an error they are dropped: nothing of them could be cut."""
        if self._error is not None:
            return
        if self._start == len(self._buffer):
            # The usual case: nothing is left over, so the chunk is cut where it lies and never copied as a whole.
            self._buffer, self._start = data, 0
            return
        if not isinstance(self._buffer, bytearray):
            self._buffer = bytearray(memoryview(self._buffer)[self._start :])
            self._start = 0
        self._buffer += data

    def drop(self) -> None:
        """Let go of what is kept: the stream has ended, and nothing of it will be asked for."""
        self._buffer, self._start = b"", 0

    def frames(self, limit: int = 0x7FFFFFFF, within: int = 0x7FFFFFFF) -> list[Frame]:
        """Hand out up to `limit` whole frames, of those that begin within so many bytes.

        Raises:
            RemoteProtocolError: the next bytes are not a frame; the connection is of no more use.
        """
        found: list[Frame] = []
        new = tuple.__new__  # the class's own takes twice as long
        buffer, position, end = self._buffer, self._start, len(self._buffer)
        most, largest_header = self.limits.max_frame - 4, self.limits.max_header
        chunk = buffer if isinstance(buffer, bytes) else None  # one that is cut where it lies
        last = min(end - 4, position + within)
        while self._error is None and len(found) < limit and position <= last:
            total, word = _WORDS.unpack_from(buffer, position) if end - position >= _LEAD else (-1, 0)
            # First what nearly every frame is: whole, and within all limits.
            if (
                chunk is not None
                and 4 < total <= most
                and 0 < (size := word & 0xFFFFFF) <= largest_header
                and word < 0x2000000
            ):
                body_at, next_at = position + _LEAD + size, position + 4 + total
                if body_at <= next_at <= end:
                    found.append(new(Frame, (word >> 24, chunk[position + _LEAD : body_at], chunk[body_at:next_at])))
                    position = next_at
                    continue
            length = self._frame_size(buffer, position, end)
            if length is None or end - position < length:
                break
            found.append(_cut(buffer, position, length))
            position += length
        self._start = position
        self._forget_consumed()
        if self._error is not None and not found:
            raise RemoteProtocolError(self._error)
        return found

    def _frame_size(self, buffer: bytes | bytearray, position: int, end: int) -> int | None:
        """Size of the frame at `position` with its length word, None when that cannot be told (yet)."""
        total = int.from_bytes(buffer[position : position + 4], "big", signed=True)
        if total < 5 or total + 4 > self.limits.max_frame:
            self._error = _bad_length(total, bytes(buffer[position : position + 4]), self.limits.max_frame)
            return None
        if end - position < _LEAD:
            return None
        kind = buffer[position + 4]
        header_length = int.from_bytes(buffer[position + 5 : position + 8], "big")
        if kind > 1:
            self._error = f"frame with header encoding {kind}: only 0 (JSON) and 1 (ROCKETMQ) exist"
        elif header_length == 0 or header_length > total - 4:
            self._error = f"frame of {total} bytes says its header has {header_length}"
        elif header_length > self.limits.max_header:
            self._error = f"header of {header_length} bytes is over the limit of {self.limits.max_header}"
        else:
            return total + 4
        return None

    def _forget_consumed(self) -> None:
        """Drop what was handed out, rarely enough that the work stays linear."""
        if self._start == len(self._buffer):
            self._buffer, self._start = b"", 0
        elif isinstance(self._buffer, bytearray) and self._start > 65536 and self._start * 2 > len(self._buffer):
            del self._buffer[: self._start]
            self._start = 0


def _cut(buffer: bytes | bytearray, position: int, size: int) -> Frame:
    header_end = position + _LEAD + int.from_bytes(buffer[position + 5 : position + 8], "big")
    end = position + size
    if isinstance(buffer, bytes):
        return Frame(buffer[position + 4], buffer[position + _LEAD : header_end], buffer[header_end:end])
    with memoryview(buffer) as view:
        return Frame(view[position + 4], bytes(view[position + _LEAD : header_end]), bytes(view[header_end:end]))


def _bad_length(total: int, word: bytes, limit: int) -> str:
    """Say what a length word that is none probably was: scanners and wrong clients knock every day."""
    if word[0] == 0x16 and word[1] == 0x03:
        return "the peer speaks TLS to a port without TLS: switch TLS on for this server, or off for the client"
    if word in (b"GET ", b"POST", b"PUT ", b"HEAD", b"HTTP", b"OPTI", b"DELE", b"CONN"):
        return f"{SPEAKS_HTTP}: this port serves the RocketMQ remoting protocol only"
    if word == b"PROX" or word == b"\r\n\r\n":
        return "the peer sends a PROXY protocol header: connect without it"
    if total < 5:
        return f"frame length {total} is too small: a frame has at least its header word and a header"
    return f"frame of {total + 4} bytes is over the limit of {limit}"
