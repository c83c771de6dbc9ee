"""The table of exchanges agrees with the declarations, is complete, and costs nothing until somebody asks."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.bodies.timer import TimerCheckpoint
from rocketpy.wire.bodies.topics import DataVersion, TopicList
from rocketpy.wire.catalogue.bodies.auth import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from rocketpy.wire.catalogue.bodies.plain_access import PlainAccessConfig
from rocketpy.wire.catalogue.body_codecs import plain_codec
from rocketpy.wire.catalogue.exchanges import EXCHANGES, body_codec, body_module, body_name, header_class
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.fields import Header
from rocketpy.wire.headers.common import RpcHeader
from rocketpy.wire.headers.route import GetRouteInfoRequestHeader
from rocketpy.wire.headers.send import SendMessageRequestHeader, SendMessageResponseHeader
from rocketpy.wire.json_body import Body, _Member, members_of
from rocketpy.wire.lenient_json import write_json
from tests.tables import Table
from tests.wire.golden import declaring_modules, header_classes

ROWS = {code: exchange for codes in EXCHANGES.values() for code, exchange in codes.items()}
PINNED = Path(__file__).parent / "declarations.tsv"

# Declared, and not the body of a request or an answer: parts of others have no row, these stand alone.
OUTSIDE = {
    "OffsetSerializeWrapper": "the file of a consumer that broadcasts",
    "AckMsg": "a message in the revive topic",
    "BatchAckMsg": "a message in the revive topic",
    "PopCheckPoint": "a message in the revive topic",
    "ConsumerFilterWrapper": "a file of the broker",
    "ConsumerFilterDataBody": "a part of it",
    "FilterDataMapByTopic": "a part of it",
    "BloomFilterDataBody": "a part of it",
    "OffsetMovedEvent": "a message in a topic of the broker's own",
    "MessageQueueForC": "a part of the next one",
    "ResetOffsetBodyForC": "the form of ResetOffsetBody that a broker sends to clients in C++",
    "TopicConfigSerializeWrapper": "what a 4.x broker answers, read as its larger successor",
    "TopicQueueMappingOne": "worked out by administrators",
    "TopicQueueMappingSerializeWrapper": "a file of the broker",
    "TopicRemappingDetailWrapper": "a file of administrators",
}


def test_every_request_code_has_a_row_and_only_one() -> None:
    assert ROWS.keys() == {int(code) for code in RequestCode}
    assert len(ROWS) == sum(len(codes) for codes in EXCHANGES.values())


def test_rows_name_what_is_declared() -> None:
    with Table() as table:
        for code in RequestCode:
            with table.row(code.name):
                row = ROWS[code]
                request, answer = header_class(code), header_class(code, answer=True)
                assert (request, answer) == (header_classes().get((code, False)), header_classes().get((code, True)))
                assert bool(row.headers) == (request is not None or answer is not None)
                assert bool(row.about) == (request is None and not row.unused), (
                    "one of them says what the request is for"
                )
                for is_answer in (False, True):
                    assert (body_codec(code, answer=is_answer) is None) == (body_name(code, answer=is_answer) == "")
                if row.unused:
                    assert row[:4] == ("", "", "", "")


def test_known_rows() -> None:
    assert header_class(RequestCode.SEND_MESSAGE_V2) is SendMessageRequestHeader
    assert header_class(RequestCode.SEND_MESSAGE_V2, answer=True) is SendMessageResponseHeader
    assert header_class(RequestCode.GET_ROUTEINFO_BY_TOPIC) is GetRouteInfoRequestHeader
    assert body_name(RequestCode.PULL_MESSAGE, answer=True) == "records"
    assert header_class(12345) is None
    assert body_codec(12345) is None


def test_no_declaration_is_idle() -> None:
    """Every body is that of an exchange or a part of one."""
    reached: set[type] = set()
    for code in ROWS:
        for answer in (False, True):
            name = body_name(code, answer=answer).strip("[]")
            if "." in name:
                subject, _, kind = name.partition(".")
                reached.add(getattr(body_module(subject), kind))
    text = "".join(str(attribute) for kind in reached for attribute in annotations(kind))
    names = {kind.__name__ for kind in reached}
    while more := {kind for kind in all_bodies() if kind.__name__ not in names and kind.__name__ in text}:
        names |= {kind.__name__ for kind in more}
        text += "".join(str(attribute) for kind in more for attribute in annotations(kind))
    assert {kind.__name__ for kind in all_bodies()} - names == OUTSIDE.keys()


def annotations(kind: type) -> list[object]:
    return [note for base in kind.__mro__ for note in vars(base).get("__annotations__", {}).values()]


def all_bodies() -> set[type[Body]]:
    found: set[type[Body]] = set()
    for module in declaring_modules("bodies"):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, Body) and kind is not Body:
                found.add(kind)
    return found


def all_headers() -> set[type[Header]]:
    found: set[type[Header]] = set()
    for module in declaring_modules("headers"):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, Header) and kind is not Header:
                found.add(kind)
    return found


def test_names_codes_and_defaults_on_the_wire_are_pinned() -> None:
    """A field comes or goes by a decision: `python -m tests.wire.test_exchanges` writes the table again."""
    assert PINNED.read_text("utf-8") == declarations()


def declarations() -> str:
    inherited = {field.name for field in RpcHeader.wire_fields}
    lines = [f"request\t{code.name}\t{code:d}\n" for code in RequestCode]
    lines += [f"response\t{code.name}\t{code:d}\n" for code in ResponseCode]
    for header in sorted(all_headers(), key=lambda kind: kind.__name__):
        own = [field for field in header.wire_fields if field.name not in inherited or header is RpcHeader]
        fields = " ".join(f"{field.name}:{field.kind}{'!' if field.required else ''}" for field in own)
        lines.append(f"header\t{header.__name__}\t{fields}\n")
    for kind in sorted(all_bodies(), key=lambda kind: kind.__name__):
        members = " ".join(
            f"{each.names[0]}{'!' if each.required else default_of(kind, each)}" for each in members_of(kind)
        )
        lines.append(f"body\t{kind.__name__}\t{members}\n")
    return "".join(lines)


def default_of(kind: type[Body], member: _Member) -> str:
    """What a member is when nothing is said of it, as it travels; "" for null, empty collections and the time."""
    default = attrs.fields_dict(kind)[member.attribute].default  # type: ignore[type-var]  # made on first use
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # a class to isinstance, a function to mypy
        made = default.factory()
        default = made if isinstance(made, list) and made else None
    return "" if default is None else f"={write_json(member.write(default))}"


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    program = """
import sys
import rocketpy
import rocketpy.wire.catalogue.exchanges as exchanges
loaded = lambda: sorted(name for name in sys.modules if name.startswith("rocketpy.wire.headers."))
assert not [name for name in sys.modules if name.startswith("rocketpy.wire.bodies.")]
print(loaded())
exchanges.header_class(37)
print(loaded())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    before, after = (ast.literal_eval(line) for line in done.stdout.splitlines())
    assert before == []
    assert after == ["rocketpy.wire.headers.common", "rocketpy.wire.headers.transaction"]


# --- bodies that are not one JSON object ---------------------------------------------------------------


def test_a_list_of_names() -> None:
    codec = plain_codec("names")
    assert codec.decode(b'["a","b"]') == ["a", "b"]
    assert codec.encode(["a", "b"]) == b'["a","b"]'
    for bad in (b"[1]", b"{}", b"", b"[", b"\xff"):
        with pytest.raises(RemoteProtocolError):
            codec.decode(bad)


def test_text_and_properties() -> None:
    assert plain_codec("properties").decode(b"a=1\n# no\nb: 2\n") == {"a": "1", "b": "2"}
    assert plain_codec("properties").encode({"a": "1", "b": "2"}) == b"a=1\nb=2\n"
    assert plain_codec("text").encode("CG_X") == b"CG_X"
    for word in ("text", "properties"):
        with pytest.raises(RemoteProtocolError, match="UTF-8"):
            plain_codec(word).decode(b"\xff")


def test_users_and_rules() -> None:
    codec = body_codec(RequestCode.AUTH_LIST_ACL, answer=True)
    assert codec is not None
    rule = PolicyEntryInfo(resource="Topic:*", actions=["Pub"], source_ips=["10.0.0.1"], decision="Allow")
    rules = [AclInfo(subject="User:a", policies=[PolicyInfo(policy_type="Custom", entries=[rule])])]
    assert codec.decode(codec.encode(rules)) == rules
    with pytest.raises(RemoteProtocolError, match="array"):
        codec.decode(b"{}")


def test_threat_secrets_of_bodies_are_not_shown() -> None:
    assert "sesame" not in repr(UserInfo(username="ali", password="sesame"))
    assert "sesame" not in repr(PlainAccessConfig(access_key="ali", secret_key="sesame"))


def test_a_timer_checkpoint_of_either_age() -> None:
    version = DataVersion(state_version=1, timestamp=2, counter=3)
    whole = TimerCheckpoint(last_read_time_ms=4, master_timer_queue_offset=5, data_version=version)
    assert TimerCheckpoint.decode(whole.encode()) == whole
    old = TimerCheckpoint.decode(whole.encode()[:32])
    assert (old.last_read_time_ms, old.master_timer_queue_offset, old.data_version.counter) == (4, 5, 0)
    with pytest.raises(RemoteProtocolError, match="33 bytes"):
        TimerCheckpoint.decode(whole.encode()[:33])


def test_a_codec_reads_what_its_class_writes() -> None:
    codec = body_codec(RequestCode.GET_TOPICS_BY_CLUSTER, answer=True)
    assert codec is not None
    assert codec.decode(TopicList(topic_list={"a"}).encode()) == TopicList(topic_list={"a"})
    assert codec.encode(TopicList(topic_list={"a"})) == b'{"topicList":["a"]}'


if __name__ == "__main__":
    PINNED.write_text(declarations(), "utf-8")
