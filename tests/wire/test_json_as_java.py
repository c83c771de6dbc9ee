"""JSON is understood as fastjson understands it: every text of the golden table has the value that Apache gave it."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from rocketpy.errors import RemoteProtocolError
from rocketpy.seams import wall_clock
from rocketpy.wire.bodies.groups import SubscriptionGroupConfig
from rocketpy.wire.bodies.heartbeat import ConsumerData, HeartbeatData
from rocketpy.wire.bodies.subscription import SubscriptionData
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.codes import LanguageCode
from rocketpy.wire.enums import ConsumeFromWhere, ConsumeType, MessageModel
from rocketpy.wire.frame import Frame
from rocketpy.wire.json_body import Body, body
from rocketpy.wire.serialize import decode_command
from rocketpy.wire.steps import run_steps
from tests.tables import Table
from tests.wire.json_cases import Row, cases, read_golden

if TYPE_CHECKING:
    from collections.abc import Callable


@body
class AnyTopic(TopicConfig):
    """Java needs no name for the object itself."""

    topic_name: str | None = None  # type: ignore[assignment]


BODIES: dict[str, type[Body]] = {
    "ConsumerData": ConsumerData,
    "HeartbeatData": HeartbeatData,
    "SubscriptionData": SubscriptionData,
    "SubscriptionGroupConfig": SubscriptionGroupConfig,
    "TopicConfig": AnyTopic,
}
REFUSED = ("error", "null")


def ours(kind: str, text: str) -> dict[str, Any] | None:
    """What we make of a text, as the members of Java's object; None when it is refused."""
    try:
        if kind == "RemotingCommand":
            return _command(text)
        return BODIES[kind].decode(text.encode()).to_json()
    except RemoteProtocolError:
        return None


def _command(text: str) -> dict[str, Any]:
    command = decode_command(Frame(0, text.encode(), b""))
    found: dict[str, Any] = {
        "code": command.code,
        "flag": command.flag,
        "version": command.version,
        "extFields": command.ext_fields,
        "language": None if command.language is None else command.language.name,
        "remark": command.remark,
        "opaque": command.opaque,
    }
    return {name: value for name, value in found.items() if value is not None}


def plain(value: Any) -> Any:
    """Java's sets have no order, and nothing in an array is nothing; empty members are absent."""
    if isinstance(value, list):
        return sorted((plain(each) for each in value if each is not None), key=lambda each: json.dumps(each))
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items() if each is not None}
    # Java's writer turns numbers that JavaScript cannot hold into text.
    return str(value) if type(value) is int and abs(value) >= 2**53 else value


def expected(row: Row) -> Any:
    """What the newest release made of a text; None when it refused it."""
    return None if row.answers[-1] in REFUSED else plain(json.loads(row.answers[-1]))


NOT_READ = {
    "x'4142'": "bytes, in a member that nobody knows",
    '{"$ref":"$"}': "the object itself in the place of the object",
    "new Date(": "a date object of Java's",
    'Set["a"]}': "Java's own text of a set",
    r'"\ud83d"': "half a character, which could not be written again",
    "99999999999999999999": "a number of 64 bits that has lost its upper half",
    '{"b":1, "a":[true]}': "the order of a hash table",
    "{}": "an object without the name that it is about",
}
"""What Apache reads and we refuse or read in another way, and why."""

NO_MEMBERS = {"serializeTypeCurrentRPC"}
"""Members of Java's objects that ours do not have: the frame itself says how its header is written."""

ROWS = read_golden()
UNDERSTOOD = [row for row in ROWS if expected(row) is not None]
EXCEPTIONS = [
    row
    for row in UNDERSTOOD
    if any(part in row.case.text for part in NOT_READ if part != "{}") or row.case == ("HeartbeatData", "{}")
]


def test_the_golden_table_has_every_text() -> None:
    assert [row.case for row in ROWS] == cases()


def test_read_as_java_reads_it() -> None:
    with Table() as table:
        for row in [row for row in UNDERSTOOD if row not in EXCEPTIONS]:
            with table.row(f"{row.case.kind} {row.case.text[:60]!a}"):
                found, wanted = plain(ours(*row.case)), expected(row)
                assert found is not None
                assert wanted.keys() - found.keys() <= NO_MEMBERS
                common = found.keys() & wanted.keys()
                assert {name: found[name] for name in common} == {name: wanted[name] for name in common}


def test_the_exceptions_are_such() -> None:
    with Table() as table:
        for row in EXCEPTIONS:
            with table.row(f"{row.case.kind} {row.case.text[:60]!a}"):
                assert plain(ours(*row.case)) != expected(row)


def test_the_heartbeat_of_the_cpp_client() -> None:
    """It writes members of enumerations by their place, and the version of a subscription as text."""
    data = HeartbeatData.decode(ROWS[0].case.text.encode())
    (group,) = data.consumer_data_set
    assert group.consume_type is ConsumeType.CONSUME_PASSIVELY
    assert group.message_model is MessageModel.CLUSTERING
    assert group.consume_from_where is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    (subscription,) = group.subscription_data_set
    assert (subscription.sub_version, subscription.code_set) == (1_700_000_000_000, {2598919})


def test_read_in_steps_as_at_once() -> None:
    with Table() as table:
        for kind, text in (row.case for row in ROWS if row.case.kind in BODIES):
            with table.row(f"{text!a:.60}"), wall_clock(lambda: 5):
                at_once, in_steps = (
                    partial(BODIES[kind].decode, text.encode()),
                    BODIES[kind].decode_steps(text.encode()),
                )
                assert outcome(partial(run_steps, in_steps)) == outcome(at_once)


def outcome(read: Callable[[], Body]) -> Any:
    """What came of it: the members, or the text of the error."""
    try:
        return read().to_json()
    except RemoteProtocolError as exc:
        return str(exc)


@pytest.mark.parametrize("number", [None, 1, 9, 13, 14, -1])
def test_languages_by_number(number: int | None) -> None:
    header = f'{{"code":1,"language":{json.dumps(number)}}}'.encode()
    known = {None: LanguageCode.JAVA, 1: LanguageCode.CPP, 9: LanguageCode.GO, 13: LanguageCode.NODE_JS}
    assert decode_command(Frame(0, header, b"")).language is known.get(number)
