"""The stream between a master and a slave: pieces of the commit log one way, how far the slave is the other way.

A master sends ``int64 offset | int32 size | bytes``, with no bytes as a sign of life; a slave sends ``int64`` numbers,
the end of its own log. There are no request codes and no headers. Sans-IO, linear in the bytes. The form with epochs
that goes with a controller is not here. Plays the part of what DefaultHAConnection and DefaultHAClient read and write.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from rocketpy.errors import LocalProtocolError, RemoteProtocolError

__all__ = ["REPORT_SIZE", "ReportDecoder", "Transfer", "TransferDecoder", "encode_report"]

_HEAD = struct.Struct(">qi")
_REPORT = struct.Struct(">q")
REPORT_SIZE = _REPORT.size


class Transfer(NamedTuple):
    """A piece of the commit log."""

    offset: int
    """Where it belongs. A slave that is elsewhere drops the connection."""
    data: bytes
    """Whole files are copied as they are, fillers included; nothing for a sign of life."""

    def encode(self) -> bytes:
        """As it travels.

        Raises:
            LocalProtocolError: the offset or the size is none.
        """
        try:
            return _HEAD.pack(self.offset, len(self.data)) + self.data
        except struct.error as exc:
            raise LocalProtocolError(f"a piece of the log at {self.offset} cannot be sent: {exc}") from exc


class TransferDecoder:
    """What a slave reads.

    Args:
        limit: bytes that a piece may have; Apache's masters send up to 32 KiB unless told otherwise.
    """

    def __init__(self, limit: int = 4 * 1024 * 1024) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def receive(self, data: bytes) -> list[Transfer]:
        """Take bytes as they come, and hand out the pieces that are whole.

        Raises:
            RemoteProtocolError: what follows is no piece; the connection is of no more use.
        """
        self._buffer += data
        found: list[Transfer] = []
        position = 0
        while len(self._buffer) - position >= _HEAD.size:
            offset, size = _HEAD.unpack_from(self._buffer, position)
            if offset < 0 or not 0 <= size <= self._limit:
                raise RemoteProtocolError(
                    f"the master sends {size} bytes for the offset {offset}; the limit is {self._limit}"
                )
            end = position + _HEAD.size + size
            if len(self._buffer) < end:
                break
            found.append(Transfer(offset, bytes(self._buffer[position + _HEAD.size : end])))
            position = end
        del self._buffer[:position]
        return found


def encode_report(offset: int) -> bytes:
    """How far a slave is.

    Raises:
        LocalProtocolError: it is no offset.
    """
    try:
        return _REPORT.pack(offset)
    except struct.error as exc:
        raise LocalProtocolError(f"{offset} cannot be reported: {exc}") from exc


class ReportDecoder:
    """What a master reads. Of several reports only the last one counts."""

    def __init__(self) -> None:
        self._buffer = b""

    def receive(self, data: bytes) -> int | None:
        """Take bytes as they come; the last report that is whole, None when there is none yet.

        Raises:
            RemoteProtocolError: it is no offset; the connection is of no more use.
        """
        whole = self._buffer + data
        end = len(whole) - len(whole) % REPORT_SIZE
        self._buffer = whole[end:]
        if not end:
            return None
        (offset,) = _REPORT.unpack_from(whole, end - REPORT_SIZE)
        if offset < 0:
            raise RemoteProtocolError(f"the slave reports the offset {offset}")
        return int(offset)
