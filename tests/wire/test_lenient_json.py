"""The JSON dialect of fastjson: what is read, what is refused, how it is written."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.wire.lenient_json import parse_json, write_json
from tests.pace import slowness
from tests.tables import Table
from tests.wire.strategies import read

TEXT = st.text(st.characters(codec="utf-8"), max_size=10)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=20
)


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_standard_json_reads_as_python_reads_it(value: Any, ascii_only: bool, indent: int | None) -> None:
    assert parse_json(json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()) == value


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@given(VALUES, st.booleans())
def test_reads_what_it_writes(value: Any, browser: bool) -> None:
    assert parse_json(write_json(value, browser_compatible=browser)) == without_nulls(value)


@given(VALUES)
def test_browser_compatible_is_standard_json_in_ascii(value: Any) -> None:
    text = write_json(value, browser_compatible=True)
    assert text.isascii()
    assert json.loads(text) == without_nulls(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{0:"a",1:"b"}', {"0": "a", "1": "b"}),
        ("{-1:2}", {"-1": 2}),
        ('{{"brokerName":"b","queueId":0,"topic":"T"}:7}', {'{"brokerName":"b","queueId":0,"topic":"T"}': 7}),
        ("{'a':'b'}", {"a": "b"}),
        ("{a:1,b_$2:x}", None),
        ("{a:1,b_$2:true}", {"a": 1, "b_$2": True}),
        ('{"a":1,}', {"a": 1}),
        ('{,,"a":1,,"b":2,}', {"a": 1, "b": 2}),
        ("[1,,2,]", [1, 2]),
        ("[]", []),
        ("{}", {}),
        (' /* x */ {"a" /* y */ : // z\n 1}', {"a": 1}),
        (r"{'a':'\'\"\x41\u0042\n\q'}", {"a": "'\"AB\nq"}),
        ("[1L,2S,3B,4.5F,6D,.5,+7,1e3]", [1, 2, 3, 4.5, 6, 0.5, 7, 1000.0]),
        ('{"a":"line\nbreak"}', {"a": "line\nbreak"}),
        ("[true,false,null]", [True, False, None]),
        ("", None),
        ("{", None),
        ("[", None),
        ("{a}", None),
        ("{a:}", None),
        ("{:1}", None),
        ('{"a":1} x', None),
        ("{}{}", None),
        ("[1,2}", None),
        ('{"a":"b}', None),
        ("'", None),
        ("/*", None),
        ("{/*", None),
    ],
)
def test_dialect(text: str, value: Any) -> None:
    assert read(lambda: parse_json(text)) == value


def test_threat_F11_depth_is_counted_before_it_is_built() -> None:
    with Table() as table:
        for pattern, depth in itertools.product(
            ["[", '{"a":', "{a:", "[[],", "[{},", '{"a":"]","b":'], [33, 1000, 100_000]
        ):
            with table.row(f"{depth} of {pattern}"):
                with pytest.raises(RemoteProtocolError):
                    parse_json(pattern * depth, max_depth=32)
                closed = "[" * depth + "]" * depth
                with pytest.raises(RemoteProtocolError, match="deeper"):
                    parse_json(closed, max_depth=32)


def test_threat_F11_as_deep_as_allowed() -> None:
    for opening, closing in (("[", "]"), ("{a:", "}"), ('{"a":', "}")):
        text = opening * 32 + "1" + closing * 32
        assert parse_json(text, max_depth=32)
        with pytest.raises(RemoteProtocolError):
            parse_json(opening + text + closing, max_depth=32)


def test_threat_F11_brackets_within_text_are_no_depth() -> None:
    value = {"a": "[" * 100 + "{" * 100, "b": '"' + "\\" + "[" * 100}
    assert parse_json(json.dumps(value), max_depth=2) == value


def test_threat_F11_quotes_in_comments_hide_no_depth() -> None:
    with pytest.raises(RemoteProtocolError):
        parse_json("/* ' */" + "[" * 1000 + "]" * 1000, max_depth=32)


def test_threat_F11_objects_as_keys_do_not_nest() -> None:
    """Each level would double the backslashes of the key: 60 of them are more text than any memory holds."""
    text = "1"
    for _ in range(20):
        text = "{{" + text + ":1}:1}" if text != "1" else "{{a:1}:1}"
    with pytest.raises(RemoteProtocolError):
        parse_json(text)


@pytest.mark.parametrize("text", ["Infinity", "-Infinity", "[Infinity]", '{"a":-NaN}', "nan"])
def test_threat_F12_what_is_no_number(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_json(text)


@pytest.mark.parametrize("text", ["%s", "-%s", "[%s]", "{a:%s}", '{"a":%s}', "%sL"])
def test_threat_F12_numbers_of_very_many_digits(text: str) -> None:
    for digits in (4301, 5000, 1_000_000):
        with pytest.raises(RemoteProtocolError, match="JSON"):
            parse_json(text % ("9" * digits))
    assert parse_json("9" * 256) == parse_json("9" * 256 + "L") == 10**256 - 1


def test_threat_F12_many_long_numbers() -> None:
    """Each would take 80 microseconds; 16 MiB of them a third of a second."""
    for text in ("[" + "9" * 257 + ",1" * 5000 + "]", "[" + "9." + "9" * 300 + ",1" * 5000 + "]"):
        with pytest.raises(RemoteProtocolError, match="digits"):
            parse_json(text)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_threat_F12_other_encodings_are_not_guessed(encoding: str) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_json('{"ä":"+"}'.encode(encoding))


def test_threat_F12_the_last_of_doubled_members_wins() -> None:
    assert parse_json('{"a":1,"a":2}') == {"a": 2}
    assert parse_json("{a:1,a:2}") == {"a": 2}


@pytest.mark.parametrize("text", [r'"\ud800"', r"'\ud800'", r'{"\udfff":1}', r"{'\udfff':1}", r'["\udc00\ud800"]'])
def test_threat_F10_half_surrogate_pairs(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="surrogate"):
        parse_json(text)


@pytest.mark.parametrize("item", ["1 ", "[] ", "'' ", "1,"])
def test_members_are_counted_with_and_without_commas(item: str) -> None:
    assert len(parse_json("[" + item * 100 + "]", max_members=101)) == 100
    with pytest.raises(RemoteProtocolError, match="members"):
        parse_json("[" + item * 1000 + "]", max_members=101)


@pytest.mark.parametrize(
    "text",
    [
        '"' + "\\" * 500_000,
        '"' * 500_000,
        "'" * 500_001,
        "/*" * 300_000,
        "[" + "/*" * 300_000,
        "{" + "/**/" * 200_000,
        "//" * 300_000,
        "," * 500_000,
        "[" + " " * 500_000,
        "{a" + " " * 500_000,
        "1" * 500_000,
        "1e" * 300_000,
        "a" * 500_000,
        "{a:1" * 100_000,
        "[" + '"",' * 100_000,
        "{" + "a:1," * 30_000,
        '{"' + "\\u0041" * 100_000,
        "[" + "'\\x41'," * 50_000,
    ],
    ids=lambda text: f"{text[:6]!r}",
)
def test_large_nonsense_takes_little_time(text: str) -> None:
    start = time.process_time()
    read(lambda: parse_json(text, max_members=200_000))
    read(lambda: parse_json(text.encode(), max_members=100))
    seconds = time.process_time() - start
    assert seconds < 1.5 or seconds / slowness() < 1.5, seconds


@given(st.binary(max_size=100) | st.text("{}[]\"':,\\/* a1eu0-+.\n", max_size=60))
def test_anything_is_a_value_or_the_declared_error(data: bytes | str) -> None:
    value = read(lambda: parse_json(data, max_depth=16, max_members=100))
    if value is not None:
        again = parse_json(write_json(value))
        assert again == without_nulls(value)


@given(VALUES, st.data())
def test_damaged_json_is_a_value_or_the_declared_error(value: Any, data: st.DataObject) -> None:
    text = write_json(value)
    at = data.draw(st.integers(0, len(text)))
    damage = data.draw(st.text("{}[]\"':,\\/*1eu0", max_size=3))
    read(lambda: parse_json(text[:at] + damage + text[at + data.draw(st.integers(0, 2)) :]))


# --- the writer --------------------------------------------------------------------------------------------


def test_written_as_java_writes() -> None:
    value = {"b": None, "a": {0: "x", 10: ["ü", 1.0, True, None]}, (("queueId", 1), ("topic", 'T"')): {1}}
    assert write_json(value) == '{"a":{0:"x",10:["ü",1.0,true,null]},{"queueId":1,"topic":"T\\""}:[1]}'


def test_written_for_browsers() -> None:
    value = {"b": 1, "ä": {10: "x", 9: "ü"}, "a": {(("topic", "T"),): 1}}
    assert write_json(value, browser_compatible=True) == (
        '{"a":{"{\\"topic\\":\\"T\\"}":1},"b":1,"\\u00e4":{"10":"x","9":"\\u00fc"}}'
    )


def test_numbers_that_are_none_are_written_as_null() -> None:
    assert write_json([float("inf"), float("-inf"), float("nan"), 0.1]) == "[null,null,null,0.1]"


def test_what_json_has_no_form_for_is_refused() -> None:
    for value in (b"x", object(), {"a": 1j}):
        with pytest.raises(LocalProtocolError, match="cannot be written"):
            write_json(value)
