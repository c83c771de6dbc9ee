"""Sends that are read by a layout say what the full parser says, and what is unusual is left to it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import Frame, FrameDecoder
from rocketpy.wire.headers.send import SendMessageRequestHeader
from rocketpy.wire.send_layout import LONGEST_HEADER, MOST_LAYOUTS, LaidOutSend, SendReader
from rocketpy.wire.serialize import decode_command, encode_command

PROPERTIES = "UNIQ_KEY\x01ID\x02WAIT\x01true\x02"


def fields(topic: str = "T", queue_id: int = 1, born: int = 5, properties: str = PROPERTIES) -> dict[str, str]:
    return SendMessageRequestHeader(
        producer_group="p",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=born,
        flag=0,
        properties=properties,
        reconsume_times=0,
    ).to_short_ext()


def frame_of(command: RemotingCommand) -> Frame:
    decoder = FrameDecoder()
    decoder.receive_data(encode_command(command))
    return decoder.frames()[0]


def ours(opaque: int = 1, body: bytes = b"x", **more: object) -> Frame:
    return frame_of(RemotingCommand(RequestCode.SEND_MESSAGE_V2, fields(**more), body, opaque))


def spaced(opaque: int = 1, **more: object) -> Frame:
    """As other JSON libraries write it: the opaque first, and blanks."""
    command = {"code": 310, "language": "GO", "version": 317, "opaque": opaque, "flag": 0, "remark": ""}
    return Frame(0, json.dumps({**command, "extFields": fields(**more)}).encode(), b"x")


def plain(command: RemotingCommand) -> RemotingCommand:
    return RemotingCommand(
        command.code,
        command.ext_fields,
        command.body,
        command.opaque,
        command.flag,
        command.remark,
        command.language,
        command.version,
        command.serialize_type,
    )


@pytest.mark.parametrize("make", [ours, spaced])
def test_a_send_that_looks_like_the_one_before_is_read_by_its_layout(make) -> None:
    reader = SendReader()
    assert not isinstance(reader.read(make()), LaidOutSend)
    frame = make(opaque=77, queue_id=3, born=1_700_000_000_000, properties="UNIQ_KEY\x01Other\x02")
    found = reader.read(frame)
    assert isinstance(found, LaidOutSend)
    assert plain(found) == decode_command(frame)
    assert (found.queue_id, found.born_timestamp, found.opaque) == (3, 1_700_000_000_000, 77)
    assert found.properties == b"UNIQ_KEY\x01Other\x02"
    assert found.layout.header.topic == "T"


TEXT = st.text(st.sampled_from(list("abc\x01\x02\\\"'{}:, /ué\n\x00\x7f")), max_size=12)
INTEGERS = st.integers(-(2**31), 2**31 - 1)


@given(
    st.lists(
        st.tuples(st.sampled_from(["T", "U"]), INTEGERS, INTEGERS, TEXT, st.booleans(), st.booleans()), max_size=12
    )
)
def test_whatever_comes_the_reader_says_what_the_parser_says(sends) -> None:
    reader = SendReader()
    for topic, number, opaque, text, other, odd in sends:
        make = spaced if other else ours
        frame = make(opaque=opaque, topic=topic, queue_id=number, born=number, properties=text)
        if odd:
            frame = frame._replace(header=frame.header.replace(b"\\u0001", b"\x01", 1))
        try:
            expected = decode_command(frame)
        except RemoteProtocolError:
            with pytest.raises(RemoteProtocolError):
                reader.read(frame)
        else:
            assert plain(reader.read(frame)) == expected


ODD = [
    ('"e":"1"', '"e":"01"'), ('"e":"1"', '"e":1'), ('"e":"1"', '"e":null'), ('"e":"1"', '"e":"-1"'),
    ('"e":"1"', '"e":"1","e":"2"'), ('"opaque":1,', '"opaque":01,'), ('"opaque":1,', '"opaque":1,"opaque":2,'),
    ('"opaque":1,', '"opaque":-1,'), ('"opaque":1,', '"opaque":"1",'), ('"b":"T"', '"b":"T\\u0041"'),
    ("\\u0001ID", "\\\\u0001ID"), ("\\u0001ID", "\\u0001I\\nD"), ("\\u0001ID", "\\u0001I\\u0003"),
    ("ID", "I\\u0044"), ("ID", 'I\\"D'), ("{", "{ "), ('"b":"T"', '"b":"T","x":{"e":"1","i":""}'),
    ('"g":"5"', '"g":"99999999999999999999"'), ('"g":"5"', '"g":""'), ('"code":310', '"code":320'),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), ODD)
@pytest.mark.parametrize("first", [True, False])
def test_headers_with_something_odd_are_read_as_the_parser_reads_them(old: str, new: str, first: bool) -> None:
    usual = ours()
    text = usual.header.decode()
    assert old in text
    odd = usual._replace(header=text.replace(old, new, 1).encode())
    reader = SendReader()
    for frame in (odd, odd, usual, odd) if first else (usual, odd, usual, odd):
        try:
            expected = decode_command(frame)
        except RemoteProtocolError:
            with pytest.raises(RemoteProtocolError):
                reader.read(frame)
        else:
            assert plain(reader.read(frame)) == expected


def test_few_headers_are_remembered_and_what_never_repeats_is_rarely_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    of = SendReader._take_up
    monkeypatch.setattr(SendReader, "_take_up", lambda *args: tried.append(1) or of(*args))
    reader = SendReader()
    for n in range(5000):
        reader.read(ours(topic=f"T{n}"))
    assert len(tried) < 40
    assert len(reader._layouts) == MOST_LAYOUTS
    # One that comes again is taken up before long.
    assert any(isinstance(reader.read(ours(topic="Again", opaque=n)), LaidOutSend) for n in range(600))


def test_a_header_that_is_too_long_is_not_remembered() -> None:
    """Thousands of connections may each have sent a megabyte once."""
    reader = SendReader()
    long = LONGEST_HEADER - len(ours(topic="").header)
    for size, is_remembered in ((long, True), (long + 1, False)):
        reader.read(ours(topic="T" * size))
        assert isinstance(reader.read(ours(topic="T" * size)), LaidOutSend) is is_remembered


def test_other_requests_and_binary_headers_are_left_to_the_parser() -> None:
    reader = SendReader()
    for code, kind in ((RequestCode.SEND_MESSAGE_V2, 1), (RequestCode.SEND_BATCH_MESSAGE, 0), (11, 0)):
        for opaque in range(3):
            frame = frame_of(RemotingCommand(code, fields(), b"", opaque, serialize_type=kind))
            assert not isinstance(reader.read(frame), LaidOutSend)
