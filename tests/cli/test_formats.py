"""How messages are printed, and read back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy import ConfigError, MessageDecodeError, MessageExt
from rocketpy.cli.traffic.formats import FORMATS, format_of
from rocketpy.cli.traffic.records import line_of, message_of, record_of
from rocketpy.cli.traffic.starts import Start, parsed


def stored(body: bytes = b"one", **more: object) -> MessageExt:
    given = {"broker_name": "broker-a", "queue_id": 1, "queue_offset": 7, "store_timestamp": 1_777_777_777_777, **more}
    return MessageExt("Orders", body, **given)  # type: ignore[arg-type]


def printed(form: str, message: MessageExt, *, terminal: bool = False) -> str:
    return format_of(form, terminal=terminal)(message).decode()


HEAD = "2026-05-03 03:09:37.777  broker-a:1+7"


def test_the_pretty_format_has_one_line_for_each_message_in_a_pipe() -> None:
    message = stored(b'{"a": 1}\nmore\x1b[31m', tags="paid", keys=["k1", "k2"])
    assert printed("pretty", message) == HEAD + '  tags=paid  keys=k1,k2  {"a": 1}\\nmore\\x1b[31m\n'
    assert printed("pretty", stored(b"\xff\x00")) == HEAD + "  hex:ff00 (2 bytes)\n"
    assert printed("pretty", stored(b"\xff" * 100)) == HEAD + f"  hex:{'ff' * 64}... (100 bytes)\n"


def test_the_pretty_format_spreads_long_json_on_a_terminal() -> None:
    value = {"name": "x" * 120, "id": 1}
    assert printed("pretty", stored(json.dumps(value).encode()), terminal=True) == (
        f'{HEAD}\n    {{\n      "name": "{"x" * 120}",\n      "id": 1\n    }}\n'
    )
    assert printed("pretty", stored(b'{"id": 1}'), terminal=True) == HEAD + '  {"id": 1}\n'
    assert printed("pretty", stored(b"[" * 200), terminal=True) == HEAD + "  " + "[" * 200 + "\n"  # no JSON
    assert printed("pretty", stored(b"a\nb\x07"), terminal=True) == HEAD + "\n    a\n    b\\x07\n"


def test_values_are_bodies_one_a_line() -> None:
    assert printed("value", stored("grüße\x1b".encode())) == "grüße\x1b\n"
    assert printed("value", stored("grüße\x1b\n\ty".encode()), terminal=True) == "grüße\\x1b\n\ty\n"
    assert printed("value", stored(b"\xff")) == "base64:/w==\n"


def test_raw_bodies_have_nothing_added() -> None:
    assert format_of("raw", terminal=False)(stored(b"\xff\x1b\n")) == b"\xff\x1b\n"
    assert printed("raw", stored(b"\xff\x1b"), terminal=True) == "\\xff\\x1b"


@pytest.mark.parametrize("form", FORMATS)
@given(body=st.binary(max_size=200), tags=st.text(max_size=20), key=st.text(max_size=20))
def test_nothing_commands_a_terminal(form: str, body: bytes, tags: str, key: str) -> None:
    text = printed(form, stored(body, tags=tags, keys=[key]), terminal=True)
    assert all(each.isprintable() or each in "\n\t" for each in text)


def test_a_body_that_cannot_be_unpacked_is_told_in_its_place() -> None:
    assert record_of(stored())["body"] == "one"
    damaged = _Damaged("Orders", b"")
    assert record_of(damaged)["bodyError"] == "it is damaged"
    for form in ("pretty", "value"):
        assert printed(form, damaged).rstrip().endswith("(it is damaged)")
    with pytest.raises(ConfigError, match="printed without its body"):
        message_of("Orders", line_of(damaged).encode())


class _Damaged(MessageExt):
    @property
    def body(self) -> bytes:
        raise MessageDecodeError("it is damaged")


# --- JSON, and back ------------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    body=st.binary(min_size=1, max_size=200),
    tags=st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1).filter(str.strip),
    keys=st.lists(st.text("abc-_.äö", min_size=1), max_size=3),
    properties=st.dictionaries(st.text("abcXYZ", min_size=3), st.text("abc {}\"'", min_size=1).filter(str.strip)),
)
def test_what_is_printed_as_json_can_be_sent_again(
    body: bytes, tags: str | None, keys: list[str], properties: dict[str, str]
) -> None:
    line = line_of(stored(body, tags=tags, keys=keys, properties=properties))
    assert line.isascii()
    assert "\n" not in line
    again = message_of("Other", line.encode())
    assert (again.topic, again.body, again.tags, list(again.keys)) == ("Other", body, tags, keys)
    assert dict(again.properties) == properties


def test_lines_that_people_write() -> None:
    made = message_of("Orders", b'{"body": {"id": 1}, "keys": "k", "delay": 2.5}')
    assert (made.body, made.keys, made.wire_properties["TIMER_DELAY_MS"]) == (b'{"id": 1}', ("k",), "2500")
    assert message_of("Orders", b'{"body": [1, 2]}').body == b"[1, 2]"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "expected a JSON object"),
        (b'{"body": "a", "key": "k"}', "unknown member 'key'"),
        (b'{"tags": "a"}', "either body or"),
        (b'{"body": "a", "bodyBase64": "YQ=="}', "either body or"),
        (b'{"bodyBase64": "?"}', "not base64"),
        (b'{"bodyBase64": 1}', "not base64"),
        (b'{"body": ""}', "the body is empty"),
        (b'{"body": "\\ud800"}', "lone surrogate"),
        (b'{"body": "a", "keys": ["a b"]}', "contains a space"),
        (b'{"body": "a", "keys": 5}', "keys"),
        (b'{"body": "a", "properties": {"KEYS": "x"}}', "used by RocketMQ itself"),
        (b'{"body": "a", "properties": {"x": 1}}', "give a str"),
        (b'{"body": "a", "properties": [1]}', "must be a dict"),
        (b'{"body": "a", "delay": "soon"}', "give seconds"),
    ],
)
def test_lines_that_are_no_messages(line: bytes, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        message_of("Orders", line)


# --- where to begin, and how long ----------------------------------------------------------------------


def test_places_to_begin() -> None:
    assert parsed(None) == Start("last")
    assert parsed("begin") == Start("begin")
    assert parsed("0") == Start("offset", 0)
    assert parsed("99999999999") == Start("offset", 99_999_999_999)
    assert parsed("1777777777777") == Start("time", 1_777_777_777_777)
    assert parsed("2026-05-03T03:09:37+00:00") == Start("time", 1_777_777_777_000)
    assert parsed("15m").word == "time"
    for wrong in ("-1", "-99999999999999999999999", "99999999999999999999", "soon", "", "١"):
        with pytest.raises(ConfigError):
            parsed(wrong)
