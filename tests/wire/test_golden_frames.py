"""Every captured frame goes through the decoder and back to the same meaning, whatever its fields and body say."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from rocketpy.wire.codes import LanguageCode, SerializeType
from rocketpy.wire.frame import FrameDecoder
from rocketpy.wire.lenient_json import parse_json
from rocketpy.wire.serialize import decode_command, encode_command
from tests.tables import Table
from tests.wire.golden import FILES, GoldenFrame, has_one_binary_form, load, whole_frames


def test_there_are_captures() -> None:
    assert len(whole_frames()) > 4000


def test_every_frame_there_and_back() -> None:
    with Table() as table:
        for file in FILES:
            with table.row(file):
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
                        assert {"extFields": {}} | parse_json(ours.header) == {"extFields": {}} | parse_json(
                            frame.header
                        ), golden
                        assert ours.body == frame.body, golden
                    else:
                        assert again == golden.data or not has_one_binary_form(frame.header), golden
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


def test_every_frame_says_what_the_capture_noted() -> None:
    with Table() as table:
        for file in FILES:
            with table.row(file):
                for golden in load(file):
                    if golden.is_cut:
                        continue
                    record, command = golden.record, decode_command(golden.frame())
                    assert (command.code, command.opaque, command.flag) == (
                        record["code"],
                        record["opaque"],
                        record["flag"],
                    )
                    assert command.language == (LanguageCode[record["language"]] if record["language"] else None), (
                        golden
                    )
                    assert (command.version, command.serialize_type.name) == (record["version"], record["serialize"]), (
                        golden
                    )
                    assert (command.remark or None) == (record["remark"] or None), golden
                    assert len(command.body) == record["body_len"], golden
                    binary = command.serialize_type == SerializeType.ROCKETMQ
                    noted = {key: value for key, value in (record["ext_fields"] or {}).items() if value or not binary}
                    assert command.ext_fields == noted, golden


@pytest.mark.slow
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
