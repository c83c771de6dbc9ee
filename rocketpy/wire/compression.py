"""Packing and unpacking message bodies: zlib always, lz4 (frame format) and zstd where their packages are installed.

Output is counted while it is made and never grows far past the limit, whatever a few hostile bytes promise. Plays the
part of Compressor and CompressionType.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import Any

from rocketpy.errors import ConfigError, MessageDecodeError
from rocketpy.wire.limits import DEFAULT_LIMITS
from rocketpy.wire.sysflag import COMPRESSED, COMPRESSION_TYPE_MASK, COMPRESSION_TYPE_SHIFT

__all__ = ["CompressionType", "compress", "compression_flag", "compression_of", "decompress"]

_ZSTD_PIECE = 256
"""Bytes given to zstd at once: one piece can make 8 MiB at most (64 blocks of 128 KiB)."""
_ZSTD_WINDOW = 8 * 1024 * 1024
"""What the format asks every reader to support; more is memory that a stranger asks us to take."""


class CompressionType(IntEnum):
    """How a body is packed; the value is what three bits of the flag word say."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


def compression_flag(kind: CompressionType) -> int:
    """The bits that say a body is packed in this way."""
    return COMPRESSED | kind << COMPRESSION_TYPE_SHIFT


def compression_of(sys_flag: int) -> CompressionType:
    """How the flag word says a body is packed; no type at all is zlib, as before there were types.

    Raises:
        MessageDecodeError: the type is not known.
    """
    value = (sys_flag & COMPRESSION_TYPE_MASK) >> COMPRESSION_TYPE_SHIFT
    if value == 0:
        return CompressionType.ZLIB
    try:
        return CompressionType(value)
    except ValueError as exc:
        raise MessageDecodeError(f"the body is packed with compression type {value}, which is not known") from exc


def compress(body: bytes, kind: CompressionType = CompressionType.ZLIB, level: int = 5) -> bytes:
    """Pack a body; the result may be longer than what went in.

    Raises:
        ConfigError: the package for this kind is not installed.
    """
    if kind is CompressionType.ZLIB:
        return zlib.compress(body, level)
    if kind is CompressionType.LZ4:
        # Java's reader knows no blocks that refer to the one before; the rest is as its writer does it.
        lz4 = _lz4("pack", ConfigError)
        packed: bytes = lz4.compress(body, block_linked=False, block_size=lz4.BLOCKSIZE_MAX4MB, store_size=False)
    else:
        packed = _zstd("pack", ConfigError).ZstdCompressor(level=level).compress(body)
    return packed


def decompress(body: bytes, sys_flag: int, *, limit: int = DEFAULT_LIMITS.max_inflated) -> bytes:
    """Unpack a body as its flag word says; a body that is not packed comes back as it is.

    Raises:
        MessageDecodeError: the bytes are damaged, cut, followed by others, of an unknown type, would unpack to more
            than `limit` bytes, or need a package that is not installed.
    """
    if not sys_flag & COMPRESSED:
        return body
    kind = compression_of(sys_flag)
    if kind is CompressionType.ZLIB:
        return _unpack_zlib(body, limit)
    if kind is CompressionType.LZ4:
        return _unpack_lz4(body, limit)
    return _unpack_zstd(body, limit)


def _unpack_zlib(body: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(body, limit + 1)
    except zlib.error as exc:
        raise MessageDecodeError(f"the body cannot be unpacked with zlib: {exc}") from exc
    size = len(data)
    if size > limit:
        data = b""  # an error that is kept, with its traceback, would keep it too
    _check_end("zlib", size, limit, eof=stream.eof, trailing=len(stream.unused_data))
    return data


def _unpack_lz4(body: bytes, limit: int) -> bytes:
    stream = _lz4("unpack", MessageDecodeError).LZ4FrameDecompressor()
    try:
        data: bytes = stream.decompress(body, max_length=limit + 1)
    except (RuntimeError, EOFError) as exc:
        raise MessageDecodeError(f"the body cannot be unpacked with lz4: {exc}") from exc
    size = len(data)
    if size > limit:
        data = b""
    _check_end("lz4", size, limit, eof=stream.eof, trailing=len(stream.unused_data or b""))
    return data


def _unpack_zstd(body: bytes, limit: int) -> bytes:
    zstd = _zstd("unpack", MessageDecodeError)
    stream = zstd.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
    parts: list[bytes] = []
    size = position = 0
    try:
        while position < len(body) and size <= limit and not stream.eof:
            part = stream.decompress(body[position : position + _ZSTD_PIECE])
            parts.append(part)
            size += len(part)
            position += _ZSTD_PIECE
    except zstd.ZstdError as exc:
        raise MessageDecodeError(f"the body cannot be unpacked with zstd: {exc}") from exc
    trailing = len(stream.unused_data) + max(0, len(body) - position)
    if size > limit:
        part = b""
        parts.clear()
    _check_end("zstd", size, limit, eof=stream.eof, trailing=trailing)
    return b"".join(parts)


def _check_end(kind: str, size: int, limit: int, *, eof: bool, trailing: int) -> None:
    if size > limit:
        raise MessageDecodeError(f"the body unpacks ({kind}) to more than the limit of {limit} bytes")
    if not eof:
        raise MessageDecodeError(f"the body packed with {kind} is cut off")
    if trailing:
        raise MessageDecodeError(f"{trailing} bytes follow the body packed with {kind}")


def _lz4(doing: str, error: type[ConfigError | MessageDecodeError]) -> Any:
    try:
        import lz4.frame
    except ImportError as exc:
        raise error(_missing(doing, "lz4")) from exc
    return lz4.frame


def _zstd(doing: str, error: type[ConfigError | MessageDecodeError]) -> Any:
    try:
        import zstandard
    except ImportError as exc:
        raise error(_missing(doing, "zstd")) from exc
    return zstandard


def _missing(doing: str, extra: str) -> str:
    return f"to {doing} bodies with {extra}, install rocketpy with its extra [{extra}]"
