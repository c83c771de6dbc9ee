"""Every captured frame goes through the decoder, the typed header and the typed body, and back to the same meaning."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import pytest

from rocketpy.wire.codes import LanguageCode, ResponseCode, SerializeType
from rocketpy.wire.fields import HeaderFieldError
from rocketpy.wire.frame import FrameDecoder
from rocketpy.wire.lenient_json import parse_json
from rocketpy.wire.serialize import decode_command, encode_command
from tests.wire.golden import EXTRAS, FILES, SHORT_FORM, GoldenFrame, header_classes, load, whole_frames

# Answers with one of these codes carry the whole header, not only those with SUCCESS.
FULL_ANSWERS = {
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
}

# What older versions leave out and newer ones always write: ours writes it, with the value that its absence means.
ADDED = {
    "CreateTopicRequestHeader": {"force": "false"},
    "DeleteSubscriptionGroupRequestHeader": {"cleanOffset": "false"},
    "ResetOffsetRequestHeader": {"queueId": "-1"},
    "GetMaxOffsetRequestHeader": {"committed": "true"},
}


def test_there_are_captures() -> None:
    assert len(whole_frames()) > 4000


def pairs_of_binary_header(header: bytes) -> list[tuple[bytes, bytes]]:
    """The fields of a binary header one by one, read in the plainest way."""
    (remark_length,) = struct.unpack_from(">i", header, 13)
    position = 17 + remark_length + 4
    found = []
    while position < len(header):
        (length,) = struct.unpack_from(">h", header, position)
        key = header[position + 2 : position + 2 + length]
        position += 2 + length
        (length,) = struct.unpack_from(">i", header, position)
        found.append((key, header[position + 4 : position + 4 + length]))
        position += 4 + length
    return found


@pytest.mark.parametrize("file", FILES)
def test_every_frame_there_and_back(file: str) -> None:
    for golden in load(file):
        if golden.is_cut:
            check_cut_frame(golden)
            continue
        frame = golden.frame()
        command = decode_command(frame)
        again = encode_command(command)
        if frame.serialize_type == SerializeType.JSON:
            decoder = FrameDecoder()
            decoder.receive_data(again)
            (ours,) = decoder.frames()
            # An empty map of fields says the same as none.
            assert {"extFields": {}} | parse_json(ours.header) == {"extFields": {}} | parse_json(frame.header), golden
            assert ours.body == frame.body, golden
        else:
            pairs = pairs_of_binary_header(frame.header)
            if len({key for key, _ in pairs}) == len(pairs) and all(value for _, value in pairs):
                assert again == golden.data, golden
        assert decode_command(reread(again)) == command, golden


def reread(data: bytes) -> Any:
    decoder = FrameDecoder()
    decoder.receive_data(data)
    (frame,) = decoder.frames()
    return frame


def check_cut_frame(golden: GoldenFrame) -> None:
    """Only the first bytes were kept: the frame is as long as it says, and its head is what was kept."""
    record = golden.record
    assert int.from_bytes(golden.data[:4], "big") + 4 == record["frame_len"]
    assert len(record["frame_sha256"]) == hashlib.sha256().digest_size * 2
    decoder = FrameDecoder()
    decoder.receive_data(golden.data)
    assert decoder.frames() == []
    decoder.receive_data(bytes(record["frame_len"] - len(golden.data)))
    (frame,) = decoder.frames()
    command = decode_command(frame)
    assert (command.code, command.opaque, command.flag) == (record["code"], record["opaque"], record["flag"])
    assert len(command.body) == record["body_len"]
    assert encode_command(command)[: len(golden.data)] == golden.data


@pytest.mark.parametrize("file", FILES)
def test_every_frame_says_what_the_capture_noted(file: str) -> None:
    for golden in load(file):
        if golden.is_cut:
            continue
        record, command = golden.record, decode_command(golden.frame())
        assert (command.code, command.opaque, command.flag) == (record["code"], record["opaque"], record["flag"])
        assert command.language == (LanguageCode[record["language"]] if record["language"] else None), golden
        assert (command.version, command.serialize_type.name) == (record["version"], record["serialize"]), golden
        assert (command.remark or None) == (record["remark"] or None), golden
        assert len(command.body) == record["body_len"], golden
        binary = command.serialize_type == SerializeType.ROCKETMQ
        noted = {key: value for key, value in (record["ext_fields"] or {}).items() if value or not binary}
        assert command.ext_fields == noted, golden


@pytest.mark.parametrize("file", FILES)
def test_every_declared_header_there_and_back(file: str) -> None:
    for golden in load(file):
        code = golden.request_code
        kind = header_classes().get((code, golden.is_answer)) if code is not None else None
        if kind is None or golden.is_cut or (golden.is_answer and golden.record["code"] not in FULL_ANSWERS):
            continue
        command = decode_command(golden.frame())
        short = code in SHORT_FORM and not golden.is_answer
        if code == 30 and not golden.is_answer and "queueId" not in command.ext_fields:
            # Left out on purpose, to see what Apache says to a request that cannot be served.
            with pytest.raises(HeaderFieldError, match="queueId"):
                kind.from_ext(command.ext_fields)
            continue
        header = kind.from_short_ext(command.ext_fields) if short else kind.from_ext(command.ext_fields)
        again = header.to_short_ext() if short else header.to_ext()
        declared = {key: value for key, value in command.ext_fields.items() if key not in EXTRAS}
        assert again == ADDED.get(kind.__name__, {}) | declared, golden


def test_all_captures_in_one_stream_whatever_the_cuts() -> None:
    """The frames of a whole file run together, cut into pieces of one, seven and 4,096 bytes."""
    for file in FILES[::9]:
        frames = [golden for golden in load(file) if not golden.is_cut]
        stream = b"".join(golden.data for golden in frames)
        expected = [golden.frame() for golden in frames]
        for size in (1, 7, 4096, len(stream)):
            decoder, found = FrameDecoder(), []
            for start in range(0, len(stream), size):
                decoder.receive_data(stream[start : start + size])
                found += decoder.frames()
            assert found == expected
            assert decoder.buffered == 0
