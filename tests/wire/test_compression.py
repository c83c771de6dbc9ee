"""Packed bodies: round trips, Java's own, and everything hostile."""

from __future__ import annotations

import base64
import builtins
import tracemalloc
import zlib
from contextlib import suppress
from typing import Any

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import ConfigError, MessageDecodeError
from rocketpy.wire.compression import CompressionType, compress, compression_flag, compression_of, decompress
from rocketpy.wire.sysflag import COMPRESSED
from tests.vectors import java_cases, raises

KINDS = list(CompressionType)
MIB = 1024 * 1024


@pytest.mark.parametrize(("name", "expected"), java_cases("compression_flag"))
def test_P17_flag_bits(name: str, expected: dict[str, int]) -> None:
    kind = CompressionType[name]
    assert kind == expected["value"]
    assert compression_flag(kind) == expected["sysFlagBits"] | COMPRESSED


@pytest.mark.parametrize(("flag", "expected"), java_cases("compression_of_sysflag"))
def test_P17_the_flag_word_names_the_type(flag: int, expected: str | dict[str, str]) -> None:
    if raises(expected):
        with pytest.raises(MessageDecodeError, match="not known"):
            compression_of(flag)
        with pytest.raises(MessageDecodeError, match="not known"):
            decompress(b"x", flag | COMPRESSED)
    else:
        assert compression_of(flag).name == expected


@pytest.mark.parametrize(("given_body", "packed"), java_cases("compress"), ids=str)
def test_P17_what_java_packed_is_unpacked(given_body: dict[str, Any], packed: str) -> None:
    kind = CompressionType[given_body["type"]]
    body = given_body["textUtf8"].encode()
    assert decompress(base64.b64decode(packed), compression_flag(kind)) == body
    if kind is CompressionType.ZLIB:
        assert compress(body, kind, given_body["level"]) == base64.b64decode(packed)


@pytest.mark.parametrize("kind", KINDS)
@given(body=st.binary(max_size=5000), level=st.integers(1, 9))
def test_P17_bodies_survive_the_way_there_and_back(kind: CompressionType, body: bytes, level: int) -> None:
    assert decompress(compress(body, kind, level), compression_flag(kind), limit=len(body)) == body


def test_P17_a_body_that_is_not_packed_is_left_alone() -> None:
    assert decompress(b"plain", 0) == b"plain"
    assert decompress(b"plain", 0x300) == b"plain"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda packed: b"", "cut off"),
        (lambda packed: packed[:-1], "cut off|cannot be unpacked"),
        (lambda packed: packed[: len(packed) // 2], "cut off|cannot be unpacked"),
        (lambda packed: packed + b"x", "1 bytes follow"),
        (lambda packed: packed + bytes(1000), "1000 bytes follow"),
        (lambda packed: packed * 2, "bytes follow"),
        (lambda packed: b"not packed at all", "cannot be unpacked"),
        (lambda packed: b"\xff" * 100, "cannot be unpacked"),
    ],
    ids=["empty", "last byte", "half", "one more", "many more", "twice", "text", "ff"],
)
def test_threat_M4_damaged_bodies_are_one_typed_error(kind: CompressionType, damage: Any, reason: str) -> None:
    packed = compress(bytes(range(256)) * 20, kind)
    with pytest.raises(MessageDecodeError, match=reason):
        decompress(damage(packed), compression_flag(kind))


@pytest.mark.parametrize("value", [4, 5, 6, 7])
def test_threat_M4_unknown_types_are_refused(value: int) -> None:
    with pytest.raises(MessageDecodeError, match=f"type {value}"):
        decompress(b"x", COMPRESSED | value << 8)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_threat_M4_any_bytes_are_a_body_or_a_decode_error(kind: CompressionType, data: st.DataObject) -> None:
    packed = bytearray(
        data.draw(st.binary(max_size=60) | st.binary(max_size=300).map(lambda body: compress(body, kind)))
    )
    for at in data.draw(st.lists(st.integers(0, max(0, len(packed) - 1)), max_size=3)):
        if packed:
            packed[at] ^= data.draw(st.integers(1, 255))
    with suppress(MessageDecodeError):
        assert len(decompress(bytes(packed), compression_flag(kind), limit=64 * 1024)) <= 64 * 1024


@pytest.mark.parametrize("kind", KINDS)
def test_threat_M5_the_limit_is_exact(kind: CompressionType) -> None:
    body = bytes(100_000)
    packed = compress(body, kind)
    assert decompress(packed, compression_flag(kind), limit=100_000) == body
    with pytest.raises(MessageDecodeError, match="more than the limit of 99999 bytes"):
        decompress(packed, compression_flag(kind), limit=99_999)


def bomb(kind: CompressionType) -> bytes:
    """A body of some kilobytes that unpacks to 64 MiB."""
    zeros, count = bytes(MIB), 64
    if kind is CompressionType.ZLIB:
        stream = zlib.compressobj(9)
        return b"".join(stream.compress(zeros) for _ in range(count)) + stream.flush()
    if kind is CompressionType.ZSTD:
        writer = zstandard.ZstdCompressor(level=3, write_content_size=False).compressobj()
        return b"".join(writer.compress(zeros) for _ in range(count)) + writer.flush()
    frame = lz4.frame.LZ4FrameCompressor()
    return frame.begin() + b"".join(frame.compress(zeros) for _ in range(count)) + frame.flush()


@pytest.mark.parametrize("kind", KINDS)
def test_threat_M5_a_bomb_is_stopped_at_the_limit(kind: CompressionType) -> None:
    packed = bomb(kind)
    assert len(packed) < 2 * MIB
    tracemalloc.start()
    try:
        with pytest.raises(MessageDecodeError, match="more than the limit"):
            decompress(packed, compression_flag(kind), limit=MIB)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # zstd is stopped between pieces, each of which makes 8 MiB at most.
    assert peak < (20 if kind is CompressionType.ZSTD else 4) * MIB


@pytest.mark.parametrize("kind", KINDS)
def test_threat_M5_an_error_does_not_keep_what_was_unpacked(kind: CompressionType) -> None:
    packed = compress(bytes(8 * MIB), kind, 5)
    tracemalloc.start()
    try:
        with pytest.raises(MessageDecodeError, match="more than the limit") as caught:
            decompress(packed, compression_flag(kind), limit=4 * MIB)
        kept, _ = tracemalloc.get_traced_memory()
        assert caught.value.__traceback__ is not None
    finally:
        tracemalloc.stop()
    assert kept < MIB


def test_threat_M5_a_false_content_size_reserves_nothing() -> None:
    packed = bytearray(zstandard.ZstdCompressor(write_content_size=True).compress(bytes(70_000)))
    assert packed[4] >> 6 == 2  # four bytes of content size follow the descriptor
    at = 5 if packed[4] & 0x20 else 6
    packed[at : at + 4] = (2**32 - 1).to_bytes(4, "little")
    with pytest.raises(MessageDecodeError):
        decompress(bytes(packed), compression_flag(CompressionType.ZSTD))


def test_threat_M5_a_huge_window_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    writer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with pytest.raises(MessageDecodeError, match="cannot be unpacked"):
        decompress(writer.compress(b"x") + writer.flush(), compression_flag(CompressionType.ZSTD))


def test_threat_M5_a_window_is_taken_up_to_the_size_that_every_reader_supports() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=23, write_content_size=False)
    writer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = bytearray(writer.compress(b"x") + writer.flush())
    assert packed[5] == (23 - 10) << 3  # behind the magic number and the descriptor; the lowest bits are eighths
    assert decompress(bytes(packed), compression_flag(CompressionType.ZSTD)) == b"x"
    packed[5] += 1
    with pytest.raises(MessageDecodeError, match="cannot be unpacked"):
        decompress(bytes(packed), compression_flag(CompressionType.ZSTD))


def test_lz4_as_java_writes_and_reads_it() -> None:
    """Frames of blocks that stand alone: Java refuses others, and several are needed from 4 MiB on."""
    packed = compress(bytes(9 << 20), CompressionType.LZ4)
    assert packed[:6] == bytes.fromhex("04224d186070")
    assert decompress(packed, compression_flag(CompressionType.LZ4)) == bytes(9 << 20)


@pytest.mark.parametrize(("kind", "module", "extra"), [(KINDS[0], "lz4", "lz4"), (KINDS[1], "zstandard", "zstd")])
def test_a_missing_package_is_named_by_its_extra(
    monkeypatch: pytest.MonkeyPatch, kind: CompressionType, module: str, extra: str
) -> None:
    packed = compress(b"body", kind)
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0] == module:
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=rf"extra \[{extra}\]"):
        compress(b"body", kind)
    with pytest.raises(MessageDecodeError, match=rf"extra \[{extra}\]"):
        decompress(packed, compression_flag(kind))
