"""The fast readers of answers never say anything else than the full parser."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.codes import LanguageCode, SerializeType
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.fast_answer import peek, scan_pull_answer, scan_send_answer
from rocketpy.wire.frame import Frame
from rocketpy.wire.headers.pull import PullMessageResponseHeader
from rocketpy.wire.headers.send import SendMessageResponseHeader
from rocketpy.wire.serialize import decode_command, encode_command
from tests.wire.golden import whole_frames
from tests.wire.strategies import commands, cut, read


def check_peek(frame: Frame) -> None:
    command = read(lambda: decode_command(frame))
    seen = read(lambda: peek(frame))
    if command is not None:
        assert seen == (command.opaque, command.flag, command.code)


def check_scan(frame: Frame) -> bool:
    """The scan agrees with the full parser, and says nothing where that raises; whether it said something."""
    found = scan_send_answer(frame)
    if found is None:
        return False
    command = decode_command(frame)
    assert (command.code, command.is_response, command.remark) == (0, True, None)
    header = SendMessageResponseHeader.from_ext(command.ext_fields)
    assert found == (
        header.msg_id,
        header.queue_id,
        header.queue_offset,
        header.transaction_id,
        header.region_id,
        header.trace_on,
    )
    assert (header.batch_uniq_id, header.recall_handle) == (None, None)
    return True


def check_pull_scan(frame: Frame) -> bool:
    """The same of the scan of pulls."""
    found = scan_pull_answer(frame)
    if found is None:
        return False
    command = decode_command(frame)
    assert (command.code, command.is_response, command.remark) == (0, True, "FOUND")
    header = PullMessageResponseHeader.from_ext(command.ext_fields)
    assert found == (header.suggest_which_broker_id, header.next_begin_offset, header.min_offset, header.max_offset)
    return True


def test_P7_every_captured_frame() -> None:
    scanned: Counter[tuple[str, int]] = Counter()
    plain: Counter[tuple[str, int]] = Counter()
    for golden in whole_frames():
        frame = golden.frame()
        check_peek(frame)
        ext = golden.record["ext_fields"] or {}
        sent = golden.is_answer and golden.record["code"] == 0 and {"msgId", "queueOffset"} <= ext.keys()
        kind = golden.record["serialize"], golden.record["version"]
        # The ids of a batch are a long text, once for many messages: nothing to be fast about in a binary header.
        long = golden.record["serialize"] == "ROCKETMQ" and len(ext.get("msgId", "")) > 127
        if sent and "recallHandle" not in ext and not long:
            plain[kind] += 1
        scanned[kind] += check_scan(frame)
    # Every plain send answer of both versions in both encodings is read the fast way.
    assert len(plain) == 4
    assert scanned == plain


def test_P7_every_captured_pull_that_found_messages() -> None:
    found: Counter[int] = Counter()
    scanned: Counter[int] = Counter()
    for golden in whole_frames():
        record = golden.record
        if golden.is_answer and record["code"] == 0 and "nextBeginOffset" in (record["ext_fields"] or {}):
            found[record["version"]] += record["serialize"] == "JSON"
            scanned[record["version"]] += check_pull_scan(golden.frame())
    # Of both versions, all with a JSON header.
    assert len(found) == 2
    assert scanned == found


def test_P7_an_answer_of_the_simulator_is_scanned_too() -> None:
    ext = {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "7",
        "minOffset": "3",
        "maxOffset": "9",
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }
    assert check_pull_scan(cut(encode_command(RemotingCommand(0, ext, b"", 5, 1, remark="FOUND"))))


def pull_answers() -> st.SearchStrategy[RemotingCommand]:
    """Answers of every shape around those that are scanned."""
    number = st.sampled_from(["0", "7", "007", "-1", "", "x", "1_0", " 1", "123456789", "9" * 18, "9" * 19])
    names = ["suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"]
    flags = ["topicSysFlag", "groupSysFlag", "offsetDelta", "forbiddenType"]
    ext = st.fixed_dictionaries(dict.fromkeys(names, number), optional=dict.fromkeys(flags, number))
    orders = st.sampled_from(
        [
            ["suggestWhichBrokerId", "groupSysFlag", "nextBeginOffset", "maxOffset", "minOffset", "topicSysFlag"],
            [*names, *flags],
            names[::-1],
        ]
    )
    ordered = st.builds(lambda order, ext: {key: ext[key] for key in [*order, *ext] if key in ext}, orders, ext)
    return st.builds(
        RemotingCommand,
        code=st.sampled_from([0, 0, 0, 19, 21]),
        ext_fields=ordered,
        body=st.binary(max_size=3),
        opaque=st.sampled_from([0, 5, 123456789, 2**31 - 1, -1]),
        flag=st.sampled_from([1, 1, 1, 0, 2, 3]),
        remark=st.sampled_from(["FOUND", "FOUND", "FOUND", None, "", "NO_MATCHED_MESSAGE"]),
        language=st.sampled_from([LanguageCode.JAVA, LanguageCode.PYTHON, LanguageCode.OTHER]),
        version=st.sampled_from([0, 407, 479, 2000]),
        serialize_type=st.sampled_from(SerializeType),
    )


@given(pull_answers(), st.data())
def test_P7_answers_to_pulls_of_any_shape_whole_and_damaged(command: RemotingCommand, data: st.DataObject) -> None:
    kind, header, body = cut(encode_command(command))
    check_pull_scan(Frame(kind, header, body))
    at = data.draw(st.integers(0, len(header) - 1))
    check_pull_scan(Frame(kind, header[:at] + data.draw(st.binary(max_size=1)) + header[at + 1 :], body))


def send_answers() -> st.SearchStrategy[RemotingCommand]:
    """Answers of every shape around the one that is scanned."""
    text = st.sampled_from(
        ["", "A", "7F000001000071E80000000000006C48", "DefaultRegion", "ü", '"', "\\", "{", "\x01", "%s"]
    )
    number = st.sampled_from(
        ["0", "7", "007", "-1", "", "x", "1_0", " 1", "123456789", "1234567890", "9" * 18, "9" * 19]
    )
    trace = st.sampled_from(["true", "false", "TRUE", "", "yes"])
    required = {"msgId": text, "queueId": number, "queueOffset": number}
    optional = {"transactionId": text, "TRACE_ON": trace, "MSG_REGION": text, "batchUniqId": text, "other": text}
    ext = st.fixed_dictionaries(required, optional=optional) | st.dictionaries(st.sampled_from([*required]), text)
    orders = st.sampled_from(
        [
            ["msgId", "queueId", "queueOffset", "transactionId", "TRACE_ON", "MSG_REGION"],
            ["queueId", "transactionId", "msgId", "TRACE_ON", "MSG_REGION", "queueOffset"],
            ["queueId", "TRACE_ON", "MSG_REGION", "msgId", "queueOffset"],
        ]
    )
    ordered = st.builds(lambda order, ext: {key: ext[key] for key in [*order, *ext] if key in ext}, orders, ext)
    return st.builds(
        RemotingCommand,
        code=st.sampled_from([0, 0, 0, 1, 10]),
        ext_fields=ordered,
        body=st.binary(max_size=3),
        opaque=st.sampled_from([0, 5, 123456789, 2**31 - 1, -1]),
        flag=st.sampled_from([1, 1, 1, 0, 2, 3]),
        remark=st.sampled_from([None, None, "", "FOUND", 'x","opaque":5']),
        language=st.sampled_from([LanguageCode.JAVA, LanguageCode.PYTHON, LanguageCode.OTHER]),
        version=st.sampled_from([0, 407, 479, 2000]),
        serialize_type=st.sampled_from(SerializeType),
    )


@given(send_answers())
@example(RemotingCommand(0, {"msgId": 'a","flag":1,"language":"JAVA","opaque":1,', "queueId": "0", "queueOffset": "1"}))
def test_P7_answers_of_any_shape(command: RemotingCommand) -> None:
    frame = cut(encode_command(command))
    check_peek(frame)
    check_scan(frame)


@given(commands())
def test_any_command(command: RemotingCommand) -> None:
    frame = cut(encode_command(command))
    check_peek(frame)
    check_scan(frame)


@given(send_answers(), st.data())
def test_damaged_answers(command: RemotingCommand, data: st.DataObject) -> None:
    """Where the scan says something about a damaged header, the full parser says the same."""
    kind, header, body = cut(encode_command(command))
    at = data.draw(st.integers(0, len(header) - 1))
    how = data.draw(st.integers(0, 2))
    byte = data.draw(st.binary(min_size=1, max_size=1))
    damaged = header[:at] + (byte if how < 2 else b"") + header[at + (how != 1) :]
    frame = Frame(kind, damaged, body)
    read(lambda: peek(frame))
    if scan_send_answer(frame) is not None:
        assert check_scan(frame)


@pytest.mark.parametrize(
    "header",
    [
        b'{"code":0,"extFields":{"flag":1,"language":"JAVA","opaque":7},"flag":0,"language":"JAVA","opaque":5,'
        b'"serializeTypeCurrentRPC":"JSON","version":479}',
        b'{"code":0,"extFields":{"a":"},\\"flag\\":1,\\"language\\":\\"JAVA\\",\\"opaque\\":9,"},"flag":3,"language":"JAVA",'
        b'"opaque":5,"serializeTypeCurrentRPC":"JSON","version":479}',
        b'{"code":0,"flag":1,"language":"JAVA","opaque":5,"remark":"\\"opaque\\":6,","serializeTypeCurrentRPC":"JSON",'
        b'"version":479}',
        b'{"code":0,"flag":1,"language":"JAVA","opaque":05,"serializeTypeCurrentRPC":"JSON","version":479}',
        b'{"code":0,"xflag":1,"language":"JAVA","opaque":5,"serializeTypeCurrentRPC":"JSON","version":479}',
        b'{"code":0,"flag":1,"language":"JAVA","opaque":12345678901,"serializeTypeCurrentRPC":"JSON","version":479}',
        b'{"opaque":5}',
        b"{}",
        b"{'code':0,'flag':1,'opaque':5}",
    ],
)
def test_headers_made_to_mislead(header: bytes) -> None:
    check_peek(Frame(0, header, b""))


@pytest.mark.parametrize("frame", [Frame(0, b"", b""), Frame(0, b"x", b""), Frame(1, b"\x00" * 20, b"")])
def test_what_is_no_header_is_the_declared_error(frame: Frame) -> None:
    with pytest.raises(RemoteProtocolError):
        peek(frame)
    assert scan_send_answer(frame) is None
