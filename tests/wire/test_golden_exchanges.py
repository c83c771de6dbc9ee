"""Every captured frame is taken apart into its declared header and its declared body, and put together again.

Nothing may be left over: a field that no declaration knows, a member that no body knows, a code that the table of
exchanges does not know. What is odd about single captures is listed here with its reason.

The rule for what comes out: fields and text bodies have the same values, JSON bodies the same value (sets in any
order), all other bodies the same bytes; and a frame with a ROCKETMQ header whose fields are written in the order in
which they came is the same frame, byte by byte. A JSON header has to mean the same.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import attrs
import pytest

from rocketpy.wire.bodies.registration import RegisterBrokerBody
from rocketpy.wire.catalogue.exchanges import body_codec, body_name, header_class
from rocketpy.wire.codes import RequestCode, ResponseCode, SerializeType
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.fields import Header
from rocketpy.wire.headers.common import EXTRA_FIELDS
from rocketpy.wire.json_body import Body
from rocketpy.wire.lenient_json import parse_json
from rocketpy.wire.serialize import decode_command, encode_command
from tests.tables import Table
from tests.wire.golden import FILES, SHORT_FORM, GoldenFrame, has_one_binary_form, load, whole_frames

# POP codes in a ROCKETMQ header, which has 16 bits for them: what arrives is no code at all.
CUT_CODES = {code & 0xFFFF: code for code in RequestCode if code > 0xFFFF}
# Made by hand to see what servers answer to what they do not know.
INVENTED_CODES = {7777}

# Answers with one of these codes carry the whole header, others only what was filled in before things went wrong.
FULL_ANSWERS = {
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
    ResponseCode.POLLING_TIMEOUT,
}

# What older versions leave out and newer ones always write: ours writes it, with the value that its absence means.
ADDED_FIELDS = {
    "CreateTopicRequestHeader": {"force": "false"},
    "DeleteSubscriptionGroupRequestHeader": {"cleanOffset": "false"},
    "ResetOffsetRequestHeader": {"queueId": "-1"},
    "GetMaxOffsetRequestHeader": {"committed": "true"},
}

# A version of the moment in which it was made.
NEW_VERSION = {"counter": 0, "stateVersion": 0}
# The same for members of bodies: peers of 4.x and hand-made requests leave them out.
ADDED_MEMBERS: dict[str, Any] = {
    "attributes": {},
    "consumeMessageOrderly": False,
    "consumeTimeoutMinute": 15,
    "enableActingMaster": False,
    "filterServerList": [],
    "forbiddenTable": {},
    "groupRetryPolicy": {"type": "CUSTOMIZED"},
    "groupSysFlag": 0,
    "heartbeatFingerprint": 0,
    "mappingDataVersion": NEW_VERSION,
    "mqPopTable": {},
    "onlyThisBroker": False,
    "order": False,
    "pullOffset": 0,
    "stateVersion": 0,
    "topicConfigSerializeWrapper": {
        "dataVersion": NEW_VERSION,
        "mappingDataVersion": NEW_VERSION,
        "topicConfigTable": {},
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    },
    "topicFilterType": "SINGLE_TAG",
    "topicPutTps": 0.0,
    "topicQueueMappingDetailMap": {},
    "topicQueueMappingInfoMap": {},
    "topicSysFlag": 0,
    "totalInflightDiff": 0,
    "userConsumerInfo": {},
    "withoutSub": False,
}
# Worked out from the rest of its body, and read by nobody.
DERIVED = {"groupTopicMap"}
# Sets in Java, in the order of a hash table.
SETS = {"codeSet", "groupList", "lockOKMQSet", "mqSet", "tagsSet", "topicList"}


def code_of(golden: GoldenFrame) -> int | None:
    return CUT_CODES.get(golden.request_code or 0, golden.request_code)


def lacks_a_field(golden: GoldenFrame) -> bool:
    """A hand-made request without its queue id, to see what Apache says to one that cannot be served."""
    return golden.request_code == 30 and not golden.is_answer and "queueId" not in golden.record["ext_fields"]


# --- headers -------------------------------------------------------------------------------------------


def written_again(golden: GoldenFrame, fields: dict[str, str]) -> dict[str, str]:
    """The fields after they were read into the declared header and written from it."""
    code = code_of(golden)
    kind = header_class(code, answer=golden.is_answer) if code is not None else None
    if kind is None:
        return {}
    short = code in SHORT_FORM and not golden.is_answer
    if lacks_a_field(golden) or (golden.is_answer and golden.record["code"] not in FULL_ANSWERS):
        return one_by_one(kind, fields)
    header = kind.from_short_ext(fields) if short else kind.from_ext(fields)
    again = header.to_short_ext() if short else header.to_ext()
    added = {name: value for name, value in ADDED_FIELDS.get(kind.__name__, {}).items() if name not in fields}
    assert added.items() <= again.items(), golden
    return {name: value for name, value in again.items() if name not in added}


def one_by_one(kind: type[Header], fields: dict[str, str]) -> dict[str, str]:
    by_name = {field.name: field for field in kind.wire_fields}
    return {name: by_name[name].write(by_name[name].read(value)) for name, value in fields.items() if name in by_name}


# --- bodies --------------------------------------------------------------------------------------------


def body_again(golden: GoldenFrame, command: RemotingCommand) -> bytes:
    """The body after it was read into its declared class and written from it, if that says the same."""
    where = str(golden)
    codec = body_codec(code_of(golden) or -1, answer=golden.is_answer)
    assert codec is not None, f"{where}: a body, and none is declared"
    if golden.request_code == RequestCode.REGISTER_BROKER and command.body[:1] != b"{" and not golden.is_answer:
        return registration_again(command)
    found = codec.decode(command.body)
    again = codec.encode(found)
    name = body_name(code_of(golden) or -1, answer=golden.is_answer)
    if "." in name and command.body[:1] in b"{[":
        check_same(parse_json(command.body), parse_json(again), where)
        if isinstance(found, Body):
            assert type(found).decode(found.encode(browser_compatible=True)) == found, where
        return command.body
    assert codec.decode(again) == found, where
    return command.body if name == "properties" else again


def registration_again(command: RemotingCommand) -> bytes:
    """The compressed form, in which the level of compression is the writer's choice."""
    found = RegisterBrokerBody.decode_any(command.body, version=command.version)
    assert RegisterBrokerBody.decode_any(found.encode_compressed(), version=command.version) == found
    assert found.topic_config_serialize_wrapper.topic_config_table
    return command.body


def check_same(theirs: Any, ours: Any, where: str) -> None:
    """The two mean the same: the order of what is a set in Java does not count, nor do defaults that only we write."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict), where
        assert theirs.keys() - DERIVED <= ours.keys(), where
        for key in ours.keys() - theirs.keys():
            assert timeless(ours[key]) == ADDED_MEMBERS[key], f"{where}.{key}"
        for key in theirs.keys() - DERIVED:
            check_same(theirs[key], ours[key], f"{where}.{key}")
    elif isinstance(theirs, list):
        assert len(theirs) == len(ours), where
        if where.rpartition(".")[2] in SETS:
            theirs, ours = sorted(theirs, key=json.dumps), sorted(ours, key=json.dumps)
        for one, other in zip(theirs, ours, strict=True):
            check_same(one, other, where)
    else:
        assert theirs == ours, where
        assert type(theirs) is type(ours), where


def timeless(value: Any) -> Any:
    """Without the times at which versions were made."""
    if not isinstance(value, dict):
        return value
    return {key: timeless(each) for key, each in value.items() if key != "timestamp"}


# --- the whole frame -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_P8_every_frame_into_its_declarations_and_back() -> None:
    with Table() as table:
        for file in FILES:
            with table.row(file):
                for golden in load(file):
                    if golden.is_cut:
                        continue
                    frame = golden.frame()
                    command = decode_command(frame)
                    fields = {name: value for name, value in command.ext_fields.items() if name not in EXTRA_FIELDS}
                    again = written_again(golden, fields)
                    assert again == fields, f"{file} {golden}: a field that is not declared, or not for this code"
                    body = body_again(golden, command) if command.body else b""
                    ours = attrs.evolve(
                        command,
                        ext_fields={name: again.get(name, value) for name, value in command.ext_fields.items()},
                        body=body,
                    )
                    assert ours == command, golden
                    if frame.serialize_type == SerializeType.ROCKETMQ and has_one_binary_form(frame.header):
                        assert encode_command(ours) == golden.data, golden


def test_every_code_of_a_capture_is_known() -> None:
    """An answer whose request was not captured is of a kind that its own fields tell."""
    codes = {code_of(golden) for golden in whole_frames()} - INVENTED_CODES - {None}
    assert codes <= {int(code) for code in RequestCode}
    lost = [golden for golden in whole_frames() if golden.request_code is None]
    assert all(golden.is_answer for golden in lost)


def test_captures_meet_most_declarations() -> None:
    """How many of the declared headers and bodies a captured frame has; the others stand on Apache's classes alone."""
    met = Counter((code_of(golden), golden.is_answer) for golden in whole_frames() if golden.request_code is not None)
    headers = {(code, answer) for code in RequestCode for answer in (False, True) if header_class(code, answer=answer)}
    bodies = {(code, answer) for code in RequestCode for answer in (False, True) if body_codec(code, answer=answer)}
    with_body = {(code_of(golden), golden.is_answer) for golden in whole_frames() if golden.record["body_len"]}
    assert len(headers & met.keys()) > 100
    assert len(bodies & with_body) > 60
