"""Cutting a stream into frames: the layout, what is refused, and that the cuts of the network never matter."""

from __future__ import annotations

import itertools
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.wire.codes import SerializeType
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import Frame, FrameDecoder, encode_frame
from rocketpy.wire.limits import WireLimits
from rocketpy.wire.serialize import encode_command
from tests.pace import slowness
from tests.wire.strategies import read

FRAMES = st.builds(Frame, st.sampled_from([0, 1]), st.binary(min_size=1, max_size=60), st.binary(max_size=60))
GOOD = encode_frame(0, b"{}", b"body")


def decode_all(pieces: list[bytes]) -> tuple[list[Frame], str | None]:
    """Every frame of a stream that comes in these pieces, and the error that ends it."""
    decoder, found = FrameDecoder(), []
    for piece in pieces:
        decoder.receive_data(piece)
        try:
            while frames := decoder.frames(3):
                found += frames
        except RemoteProtocolError as exc:
            return found, str(exc)
    return found, None


def cut_at(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(places)]


# --- layout ----------------------------------------------------------------------------------------------


def test_P3_encoding_sits_in_the_top_byte_of_the_header_word() -> None:
    for kind in SerializeType:
        data = encode_frame(kind, b"h" * 0x010203, b"body")
        assert struct.unpack_from(">i", data) == (4 + 0x010203 + 4,)
        assert data[4:8] == bytes([kind, 1, 2, 3])


def test_P3_header_length_has_24_bits() -> None:
    limits = WireLimits(max_frame=2**25, max_header=2**25)
    assert encode_frame(0, bytes(0xFFFFFF), limits=limits)[4:8] == b"\x00\xff\xff\xff"
    with pytest.raises(LocalProtocolError, match="limit"):
        encode_frame(0, bytes(0x1000000), limits=limits)


def test_P3_each_frame_has_its_own_encoding_and_answers_keep_it() -> None:
    stream = b""
    for kind in (0, 1, 0):
        request = RemotingCommand(105, {"topic": "T"}, serialize_type=SerializeType(kind))
        stream += encode_command(request) + encode_command(request.answer())
    frames, error = decode_all([stream])
    assert [frame.serialize_type for frame in frames] == [0, 0, 1, 1, 0, 0]
    assert error is None


@given(st.lists(FRAMES, max_size=5))
def test_frames_come_back_as_they_were(frames: list[Frame]) -> None:
    assert decode_all([b"".join(encode_frame(*frame) for frame in frames)]) == (frames, None)


def test_limit_counts_the_length_word() -> None:
    limits = WireLimits(max_frame=100)
    assert len(encode_frame(0, b"h", bytes(91), limits=limits)) == 100
    with pytest.raises(LocalProtocolError, match="limit of 100"):
        encode_frame(0, b"h", bytes(92), limits=limits)
    for total, fits in ((96, True), (97, False)):
        decoder = FrameDecoder(limits)
        decoder.receive_data(struct.pack(">iI", total, 1) + bytes(total - 4))
        if fits:
            assert len(decoder.frames()) == 1
        else:
            with pytest.raises(RemoteProtocolError, match="limit of 100"):
                decoder.frames()


# --- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [-(2**31), -5, -1, 0, 1, 2, 3, 4])
def test_threat_F1_length_without_room_for_a_header(total: int) -> None:
    assert decode_all([struct.pack(">i", total)])[1] is not None


@pytest.mark.parametrize(
    ("start", "cause"),
    [
        (b"\x16\x03\x01\x02", "TLS"),
        (b"\x16\x03\x03\x00", "TLS"),
        (b"GET ", "HTTP"),
        (b"POST", "HTTP"),
        (b"HEAD", "HTTP"),
        (b"PUT ", "HTTP"),
        (b"OPTI", "HTTP"),
        (b"DELE", "HTTP"),
        (b"CONN", "HTTP"),
        (b"HTTP", "HTTP"),
        (b"PROX", "PROXY"),
        (b"\r\n\r\n", "PROXY"),
        (b"SSH-", "limit"),
        (b"\x7f\xff\xff\xff", "limit"),
        (b"\x01\x00\x00\x00", "limit"),
        (b"\x00\xff\xff\xfd", "limit"),
    ],
)
def test_threat_F2_lengths_over_the_limit_name_their_likely_cause(start: bytes, cause: str) -> None:
    """Four bytes are enough to refuse: nothing of what follows is kept."""
    decoder = FrameDecoder()
    decoder.receive_data(start)
    with pytest.raises(RemoteProtocolError, match=cause):
        decoder.frames()
    kept = decoder.buffered
    decoder.receive_data(bytes(1000))
    assert decoder.buffered == kept
    with pytest.raises(RemoteProtocolError, match=cause):
        decoder.frames()


def test_threat_F3_nothing_is_set_aside_for_what_was_announced() -> None:
    decoder = FrameDecoder()
    decoder.receive_data(struct.pack(">iI", 16 * 1024 * 1024 - 4, 100))
    assert decoder.frames() == []
    assert decoder.buffered == 8
    assert len(decoder._buffer) == 8


def test_threat_F3_what_comes_is_bounded_by_the_frame() -> None:
    limits = WireLimits(max_frame=1000)
    decoder = FrameDecoder(limits)
    for _ in range(200):
        decoder.receive_data(encode_frame(0, b"{}", bytes(700), limits=limits)[:500])
        try:
            decoder.frames()
        except RemoteProtocolError:
            break
        assert decoder.buffered <= limits.max_frame + 500


@pytest.mark.parametrize("header_length", [129, 133, 100_000, 0xFFFFFF])
def test_threat_F4_header_longer_than_its_frame(header_length: int) -> None:
    _, error = decode_all([struct.pack(">iI", 132, header_length)])
    assert error == f"frame of 132 bytes says its header has {header_length}"


@pytest.mark.parametrize("kind", [2, 7, 127, 128, 255])
def test_threat_F5_unknown_encoding(kind: int) -> None:
    _, error = decode_all([struct.pack(">iI", 132, kind << 24 | 100)])
    assert error is not None
    assert f"encoding {kind}" in error


@pytest.mark.parametrize("kind", [0, 1])
def test_threat_F5_no_header(kind: int) -> None:
    assert decode_all([struct.pack(">iI", 132, kind << 24)])[1] == "frame of 132 bytes says its header has 0"


def test_header_over_the_limit() -> None:
    _, error = decode_all([struct.pack(">iI", 2**21, 2**20 + 1)])
    assert error is not None
    assert "limit of 1048576" in error


def test_frames_before_a_bad_one_are_handed_out() -> None:
    frames, error = decode_all([GOOD + GOOD + b"\xff\xff\xff\xff" + GOOD])
    assert len(frames) == 2
    assert error is not None


# --- cuts --------------------------------------------------------------------------------------------------


@given(st.lists(FRAMES, max_size=5), st.binary(max_size=12), st.lists(st.integers(0, 1000), max_size=20))
def test_threat_F20_the_cuts_do_not_matter(frames: list[Frame], garbage: bytes, cuts: list[int]) -> None:
    """Whole, byte by byte, at random places: the same frames, the same error."""
    data = b"".join(encode_frame(*frame) for frame in frames) + garbage
    whole = decode_all([data])
    assert decode_all([data[place : place + 1] for place in range(len(data))]) == whole
    assert decode_all(cut_at(data, cuts)) == whole


@given(st.binary(max_size=100), st.lists(st.integers(0, 100), max_size=10))
def test_threat_F20_garbage_is_frames_or_the_declared_error(data: bytes, cuts: list[int]) -> None:
    whole = read(lambda: decode_all([data]))
    assert whole == decode_all(cut_at(data, cuts))


def bytewise(size: int) -> float:
    """Seconds of processor time for one frame of `size` bytes that comes byte by byte."""
    data = encode_frame(0, b"{}", bytes(size))
    decoder = FrameDecoder()
    start = time.process_time()
    for place in range(len(data)):
        decoder.receive_data(data[place : place + 1])
        found = decoder.frames()
    assert len(found) == 1
    return time.process_time() - start


@pytest.mark.slow
def test_threat_F20_single_bytes_take_linear_time() -> None:
    small = min(bytewise(20_000) for _ in range(3))
    large = min(bytewise(160_000) for _ in range(3))
    assert large < 24 * small + 0.05  # quadratic would be 64 times


def test_threat_F20_a_thousand_frames_at_once_in_turns_of_64() -> None:
    decoder = FrameDecoder()
    decoder.receive_data(GOOD * 1000)
    turns = []
    while frames := decoder.frames(64):
        turns.append(len(frames))
    assert turns == [64] * 15 + [40]
    assert decoder.buffered == 0


def test_threat_F20_many_small_frames_with_leftovers_take_linear_time() -> None:
    """Chunks that end within a frame, over and over: what was handed out is not moved again and again."""
    data = GOOD * 40_000
    decoder, count = FrameDecoder(), 0
    start = time.process_time()
    for place in range(0, len(data), 1003):
        decoder.receive_data(data[place : place + 1003])
        count += len(decoder.frames())
    assert count == 40_000
    seconds = time.process_time() - start
    assert seconds < 2 or seconds / slowness() < 2, seconds
