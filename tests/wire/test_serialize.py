"""The two header encodings, there and back, and what damaged ones are."""

from __future__ import annotations

import itertools
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.wire.codes import CURRENT_VERSION, LanguageCode, RequestCode, SerializeType
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import Frame, encode_frame
from rocketpy.wire.limits import WireLimits
from rocketpy.wire.serialize import decode_command, encode_command
from tests.tables import Table
from tests.wire.golden import FOLDER, whole_frames
from tests.wire.strategies import commands, cut, read

VECTORS: list[dict[str, Any]] = [
    case
    for case in json.loads((FOLDER.parent / "vectors_java.json").read_text("utf-8"))["cases"]
    if case["case"] == "frame"
]
KNOWN = json.loads((FOLDER.parent / "vectors.json").read_text("utf-8"))
EXT = [{}, {"topic": "T"}, {"a": "", "ü": "\x01\x02中", "n": "5"}]


def again(command: RemotingCommand) -> RemotingCommand:
    return decode_command(cut(encode_command(command)))


def binary_header(ext: bytes, remark: bytes = b"", *, ext_length: int | None = None) -> Frame:
    lead = struct.pack(">hBhiii", 105, 3, 479, 5, 0, len(remark)) + remark
    return Frame(1, lead + struct.pack(">i", len(ext) if ext_length is None else ext_length) + ext, b"")


def pair(key: bytes, value: bytes) -> bytes:
    return struct.pack(">h", len(key)) + key + struct.pack(">i", len(value)) + value


# --- there and back ----------------------------------------------------------------------------------------


def test_P1_json_header() -> None:
    with Table() as table:
        for remark, ext, body in itertools.product([None, "", 'said "so"\nü'], EXT, [b"", b"\x00\xffbody"]):
            with table.row(f"{remark!r}, {ext}, {body!r}"):
                command = RemotingCommand(105, ext, body, 7, 0, remark)
                assert again(command) == command


def test_P1_json_header_as_java_writes_it() -> None:
    command = RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"}, opaque=7)
    command.language = LanguageCode.JAVA
    assert encode_command(command).hex() == KNOWN["frame_json_hex"]
    assert cut(encode_command(RemotingCommand(0, opaque=3, flag=1, remark="no"))).header == (
        b'{"code":0,"flag":1,"language":"PYTHON","opaque":3,"remark":"no","serializeTypeCurrentRPC":"JSON","version":%d}'
        % CURRENT_VERSION
    )


def test_P2_binary_header() -> None:
    bodies = [b"", b"\x00\xffbody"]
    fields = [{}, {"topic": "T"}, {"ü": "\x01\x02中", "n": "5"}]
    remarks = [None, "said ü"]
    with Table() as table:
        for body, ext, remark in itertools.product(bodies, fields, remarks):
            with table.row(f"{remark!r}, {ext}, {body!r}"):
                command = RemotingCommand(105, ext, body, 7, 2, remark, serialize_type=SerializeType.ROCKETMQ)
                assert again(command) == command


def test_P2_binary_header_as_java_writes_it() -> None:
    command = RemotingCommand(105, {"topic": "TBW102"}, opaque=7, serialize_type=SerializeType.ROCKETMQ)
    command.language = LanguageCode.JAVA
    assert encode_command(command).hex() == KNOWN["frame_rocketmq_hex"]


def test_P2_no_bytes_are_null() -> None:
    command = RemotingCommand(105, {"topic": "", "a": "b"}, remark="", serialize_type=SerializeType.ROCKETMQ)
    found = again(command)
    assert found.ext_fields == {"a": "b"}
    assert found.remark is None


def test_P2_codes_are_cut_to_16_bits() -> None:
    command = RemotingCommand(RequestCode.POP_MESSAGE, serialize_type=SerializeType.ROCKETMQ)
    assert again(command).code == 3442


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: f"{case['input']['serialize']}-{case['input']['opaque']}")
def test_P1_P2_frames_of_java(case: dict[str, Any]) -> None:
    given_, expected = case["input"], case["output"]["decoded"]
    data = bytes.fromhex(case["output"]["hex"])
    command = decode_command(cut(data))
    binary = given_["serialize"] == "ROCKETMQ"
    ext = {key: value for key, value in expected["extFields"].items() if value is not None}
    assert (command.code, command.opaque, command.flag, command.version) == tuple(
        expected[name] for name in ("code", "opaque", "flag", "version")
    )
    assert (command.ext_fields, command.remark) == (ext, expected["remark"])
    ours = RemotingCommand(
        given_["code"],
        given_["extFields"],
        bytes.fromhex(given_["bodyHex"]),
        given_["opaque"],
        given_["flag"],
        given_["remark"],
        LanguageCode.JAVA,
        given_["version"],
        SerializeType.ROCKETMQ if binary else SerializeType.JSON,
    )
    assert encode_command(ours) == data


@given(commands())
def test_P1_P2_any_command(command: RemotingCommand) -> None:
    assert again(command) == command


def test_P4_answers_keep_the_opaque_and_set_the_bit() -> None:
    for kind in SerializeType:
        request = RemotingCommand(105, {"topic": "T"}, opaque=-7, serialize_type=kind)
        answer = again(request.answer(17, "not here", {"a": "b"}, b"x"))
        assert (answer.opaque, answer.flag, answer.code, answer.remark) == (-7, 1, 17, "not here")
        assert answer.is_response
        assert not answer.is_oneway
        assert answer.serialize_type == kind
        assert not again(request).is_response


def test_P4_oneway_bit() -> None:
    command = again(RemotingCommand.oneway(105, {"topic": "T"}, b"x"))
    assert command.flag == 2
    assert command.is_oneway
    assert not command.is_response


# --- what cannot be written ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SerializeType)
def test_text_that_is_no_text_is_refused(kind: SerializeType) -> None:
    for command in (RemotingCommand(1, {"a": "\ud800"}), RemotingCommand(1, {"\udfff": "a"}), RemotingCommand(1)):
        command.serialize_type = kind
        command.remark = "\ud800"
        with pytest.raises(LocalProtocolError, match="cannot be written"):
            encode_command(command)


def test_names_that_are_too_long_for_a_binary_header_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="cannot be written"):
        encode_command(RemotingCommand(1, {"x" * 32768: "a"}, serialize_type=SerializeType.ROCKETMQ))


# --- leniency ------------------------------------------------------------------------------------------------


def test_numbers_stand_for_text_and_text_for_numbers() -> None:
    found = decode_command(
        Frame(
            0, b'{"code":"105","extFields":{"a":5,"b":true,"c":null,"d":{"e":1},"f":1.5},"remark":7,"opaque":null}', b""
        )
    )
    assert found.ext_fields == {"a": "5", "b": "true", "d": '{"e":1}', "f": "1.5"}
    assert (found.code, found.remark, found.opaque) == (105, "7", 0)


def test_headers_that_are_none() -> None:
    rows = [
        b"[]",
        b"5",
        b'"x"',
        b"{",
        b'{"code":"1.5"}',
        b'{"code":"true"}',
        b'{"code":"x"}',
        b'{"code":[]}',
        b'{"code":2147483648}',
        b'{"opaque":-2147483649}',
        b'{"flag":"12345678901234567890"}',
        b'{"extFields":5}',
        b'{"extFields":[]}',
        b'{"version":1e400}',
    ]
    with Table() as table:
        for header in rows:
            with table.row(header):
                with pytest.raises(RemoteProtocolError):
                    decode_command(Frame(0, header, b""))


# --- damaged binary headers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        binary_header(b"", ext_length=-1),
        binary_header(b"", ext_length=-(2**31)),
        binary_header(struct.pack(">h", -3) + b"abc"),
        binary_header(struct.pack(">h", -32768) + pair(b"a", b"b")),
        binary_header(struct.pack(">h", 1) + b"a" + struct.pack(">i", -4) + b"abcd"),
        binary_header(struct.pack(">h", 1) + b"a" + struct.pack(">i", -(2**31))),
        Frame(1, struct.pack(">hBhiiii", 105, 3, 479, 5, 0, -4, 0), b""),
    ],
)
def test_threat_F6_negative_lengths(frame: Frame) -> None:
    with pytest.raises(RemoteProtocolError, match="of -"):
        decode_command(frame)


def test_threat_F7_lengths_past_the_end() -> None:
    rows = [
        binary_header(b"", ext_length=1),
        binary_header(b"", ext_length=2**31 - 1),
        binary_header(pair(b"a", b"b")[:-1]),
        binary_header(struct.pack(">h", 500) + b"topic"),
        binary_header(struct.pack(">h", 1) + b"a" + struct.pack(">i", 2**31 - 1) + b"b"),
        binary_header(struct.pack(">h", 1) + b"a" + b"\x00\x00"),
        binary_header(pair(b"a", b"b") + b"\x00"),
        Frame(1, struct.pack(">hBhiii", 105, 3, 479, 5, 0, 100) + b"remark", b""),
        Frame(1, struct.pack(">hBhiii", 105, 3, 479, 5, 0, 0), b""),
    ]
    with Table() as table:
        for frame in rows:
            with table.row(frame):
                with pytest.raises(RemoteProtocolError, match=r"left|before the length"):
                    decode_command(frame)


def test_threat_F7_header_cut_in_its_fixed_part() -> None:
    with Table() as table:
        for size in range(21):
            with table.row(size):
                whole = struct.pack(">hBhiiii", 105, 3, 479, 5, 0, 0, 0)
                with pytest.raises(RemoteProtocolError):
                    decode_command(Frame(1, whole[:size], b""))


def test_threat_F7_fields_never_read_past_their_own_length() -> None:
    """What lies behind the fields is not theirs, even where a field says so."""
    frame = binary_header(struct.pack(">h", 1) + b"a" + struct.pack(">i", 5) + b"bcdef", ext_length=9)
    with pytest.raises(RemoteProtocolError, match="2 are left"):
        decode_command(frame)


def test_threat_F8_fields_are_counted() -> None:
    limits = WireLimits(max_ext_fields=10)
    ten, eleven = ({f"k{number}": "v" for number in range(count)} for count in (10, 11))
    for kind in SerializeType:
        assert decode_command(cut(encode_command(RemotingCommand(1, ten, serialize_type=kind))), limits=limits)
        frame = cut(encode_command(RemotingCommand(1, eleven, serialize_type=kind)))
        with pytest.raises(RemoteProtocolError, match="fields"):
            decode_command(frame, limits=limits)


def test_threat_F8_empty_pairs_count_too() -> None:
    with pytest.raises(RemoteProtocolError, match="more than 4096"):
        decode_command(binary_header(bytes(6) * 150_000))
    many = b",".join(b'"k%d":""' % number for number in range(60_000))
    with pytest.raises(RemoteProtocolError, match="members"):
        decode_command(Frame(0, b'{"code":1,"extFields":{' + many + b"}}", b""))


def test_threat_F9_the_last_of_doubled_fields_wins() -> None:
    assert decode_command(binary_header(pair(b"a", b"1") + pair(b"a", b"2"))).ext_fields == {"a": "2"}
    assert decode_command(Frame(0, b'{"extFields":{"a":"1","a":"2"},"code":1,"code":2}', b"")).ext_fields == {"a": "2"}


def test_threat_F9_empty_names_and_null_values_are_harmless() -> None:
    assert decode_command(binary_header(pair(b"", b"1") + pair(b"a", b""))).ext_fields == {}
    found = decode_command(Frame(0, b'{"extFields":{"":"1","a":null},"flag":null}', b""))
    assert found.ext_fields == {"": "1"}


@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\xe4\xb8"])
def test_threat_F10_what_is_not_utf8_is_refused(bad: bytes) -> None:
    frames = [
        Frame(0, b'{"extFields":{"a":"' + bad + b'"}}', b""),
        binary_header(pair(b"a", bad)),
        binary_header(pair(bad, b"a")),
        binary_header(b"", remark=bad),
    ]
    for frame in frames:
        with pytest.raises(RemoteProtocolError, match="UTF-8"):
            decode_command(frame)


@pytest.mark.parametrize("text", [rb"\ud800", rb"\udc00\ud800", rb"x\uDFFF", rb"\ud800\n"])
def test_threat_F10_half_surrogate_pairs_are_refused(text: bytes) -> None:
    for header in (b'{"extFields":{"a":"%b"}}', b'{"extFields":{"%b":"a"}}', b'{"remark":"%b"}', b"{'remark':'%b'}"):
        with pytest.raises(RemoteProtocolError, match="surrogate"):
            decode_command(Frame(0, header % text, b""))
    assert decode_command(Frame(0, rb'{"remark":"\ud83d\ude00"}', b"")).remark == "\U0001f600"
    assert decode_command(Frame(0, rb"{'remark':'\ud83d\ude00'}", b"")).remark == "\U0001f600"


# --- the oracle --------------------------------------------------------------------------------------------------


@given(st.sampled_from([0, 1]), st.binary(max_size=200))
def test_any_bytes_are_a_command_or_the_declared_error(kind: int, header: bytes) -> None:
    read(lambda: decode_command(Frame(kind, header, b"")))


@given(st.sampled_from(whole_frames()[::37]), st.data())
def test_damaged_captures_are_a_command_or_the_declared_error(golden: Any, data: st.DataObject) -> None:
    frame = golden.frame()
    header = bytearray(frame.header)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(header) - 1))
        header[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
        if not header:
            return
    command = read(lambda: decode_command(Frame(frame.serialize_type, bytes(header), frame.body)))
    if command is not None:
        # Whatever was read can be written, and then reads the same.
        assert again(command).ext_fields == command.ext_fields


@given(commands(), st.integers(0, 60))
def test_cut_headers_are_the_declared_error(command: RemotingCommand, size: int) -> None:
    frame = cut(encode_command(command))
    cut_header = frame.header[: min(size, len(frame.header) - 1)]
    with pytest.raises(RemoteProtocolError):
        decode_command(Frame(frame.serialize_type, cut_header, b""))


def test_bodies_are_left_alone() -> None:
    assert decode_command(cut(encode_frame(0, b'{"code":1}', b"\xff\x00{"))).body == b"\xff\x00{"
