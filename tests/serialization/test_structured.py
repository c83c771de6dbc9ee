"""What json and msgpack share: rows become objects, depth is bounded, errors name the place and never the value."""

from __future__ import annotations

import enum
import json
from collections import OrderedDict
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import SerializationError
from rocketpy.serialization import JsonSerializer, MsgpackSerializer, Serializer, serializer
from tests.serialization.rows import Row, json_values, msgpack_values

FORMATS = [serializer("json"), serializer("msgpack")]
both = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)


class Place(NamedTuple):
    dest: str
    distance: float


NAIVE = datetime(2013, 1, 2, 3, 4, 5)  # noqa: DTZ001 - Spark gives such
AWARE = datetime(2013, 1, 2, 3, 4, 5, 600, tzinfo=UTC)


class Colour(enum.IntEnum):
    RED = 3


class Word(str):
    __slots__ = ()


@given(json_values)
def test_json_comes_back_as_it_was(value: object) -> None:
    assert serializer("json").decode(serializer("json").encode(value)) == value


@given(msgpack_values)
def test_msgpack_comes_back_as_it_was(value: object) -> None:
    assert serializer("msgpack").decode(serializer("msgpack").encode(value)) == value


@both
@pytest.mark.parametrize(
    ("value", "read"),
    [
        (Row(carrier="UA", hour=5), {"carrier": "UA", "hour": 5}),
        (Row(row=Row(a=[Row(b=None)])), {"row": {"a": [{"b": None}]}}),
        (tuple.__new__(Row, (1, 2)), [1, 2]),  # a row without names
        (Place("IAH", 1400.0), {"dest": "IAH", "distance": 1400.0}),
        ({"a": (1, [2], {"b": ()})}, {"a": [1, [2], {"b": []}]}),
        (OrderedDict(z=1, a=2), {"z": 1, "a": 2}),
        (
            {1: "a", False: "b", 2.5: "c", date(2013, 1, 2): "d"},
            {"1": "a", "false": "b", "2.5": "c", "2013-01-02": "d"},
        ),
        (
            {"n": Decimal("1.10"), "z": Decimal("0E-9"), "d": date(2013, 1, 2)},
            {"n": "1.10", "z": "0.000000000", "d": "2013-01-02"},
        ),
        ({"t": NAIVE, "i": timedelta(seconds=90)}, {"t": "2013-01-02T03:04:05", "i": "PT90S"}),
        ({"c": Colour.RED, "w": Word("word")}, {"c": 3, "w": "word"}),
        (None, None),
        ({}, {}),
    ],
)
def test_what_a_reader_gets(form: Serializer, value: object, read: object) -> None:
    assert form.decode(form.encode(value)) == read


@both
def test_a_row_keeps_the_order_of_its_fields(form: Serializer) -> None:
    assert list(form.decode(form.encode(Row(z=1, a=2, m=3)))) == ["z", "a", "m"]


@both
def test_objects_that_say_their_columns_only_by_asdict(form: Serializer) -> None:
    class Record:
        def asDict(self) -> dict[str, Any]:
            return {"a": 1}

    assert form.decode(form.encode([Record()])) == [{"a": 1}]


def test_bytes_and_moments_are_text_in_json_and_themselves_in_msgpack() -> None:
    value = {"b": b"\x00\xff", "a": bytearray(b"x"), "t": AWARE}
    as_json, as_msgpack = (form.decode(form.encode(value)) for form in FORMATS)
    assert as_json == {"b": "AP8=", "a": "eA==", "t": "2013-01-02T03:04:05.000600+00:00"}
    assert as_msgpack == {"b": b"\x00\xff", "a": b"x", "t": AWARE}


def test_json_is_compact_and_not_escaped() -> None:
    assert serializer("json").encode({"a": ["ü", 1]}) == '{"a":["ü",1]}'.encode()


def test_json_writes_numbers_that_it_has_not_by_their_names() -> None:
    value = {"n": float("nan"), "p": float("inf"), "m": float("-inf"), "x": 1.5}
    assert serializer("json").encode(value) == b'{"n":"NaN","p":"Infinity","m":"-Infinity","x":1.5}'


def test_others_read_our_bytes() -> None:
    value = {"a": [1, 2.5, None, True], "t": AWARE}
    assert json.loads(serializer("json").encode({"a": value["a"]})) == {"a": value["a"]}
    assert msgpack.unpackb(serializer("msgpack").encode(value), timestamp=3) == value


@both
@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1, {"b": object()}]}, r"the value at 'a\[1\].b' has the type object"),
        ([set()], r"the value at '\[0\]' has the type set"),
        (Row(a=1j), "the value at 'a' has the type complex"),
        (object(), "the value has the type object"),
        ({"a": {None: 1}}, "the value at 'a' has a key of type NoneType"),
        ({1: "a", "1": "b"}, "the value has 2 members under 1 different names"),
        (Row.of(["a", "a"], [1, 2]), "2 members under 1"),
        (Row.of(["a"], [1, 2]), "2 members under 1"),
    ],
)
def test_what_cannot_be_written_is_named_by_its_place(form: Serializer, value: object, place: str) -> None:
    with pytest.raises(SerializationError, match=place) as caught:
        form.encode(value)
    assert caught.value.__cause__ is None


@both
def test_values_that_contain_themselves_end(form: Serializer) -> None:
    class Record:
        def asDict(self) -> object:
            return self

    value: list[Any] = []
    value.append({"again": value})
    for endless in (value, Record()):
        with pytest.raises(SerializationError, match="nested too deep, or contains itself"):
            form.encode(endless)


@both
def test_keys_that_are_numbers_of_thousands_of_digits(form: Serializer) -> None:
    with pytest.raises(SerializationError, match="a whole number inside the value cannot be written: Exceeds"):
        form.encode({10**5000: 1})


@both
def test_a_moment_that_is_none(form: Serializer) -> None:
    class NotATime(datetime):
        """As pandas.NaT."""

        def timetz(self) -> NoReturn:
            raise ValueError("NotATime does not support timetz")

    with pytest.raises(SerializationError, match="the value at 'a' has the type NotATime"):
        form.encode({"a": NotATime(2013, 1, 2)})


@pytest.mark.parametrize("form", [JsonSerializer(max_depth=3), MsgpackSerializer(max_depth=3)], ids=["json", "msgpack"])
def test_depth_is_bounded_when_written_and_read(form: Serializer) -> None:
    fits, deep = [[{"a": 1}]], [[{"a": [1]}]]
    assert form.decode(form.encode(fits)) == fits
    with pytest.raises(SerializationError, match="too deep"):
        form.encode(deep)
    with pytest.raises(SerializationError, match="nested deeper than 3 levels"):
        form.decode(serializer(form.name).encode(deep))


@pytest.mark.parametrize("body", [b"[" * 100_000, b"[" * 65 + b"]" * 65, b'{"a":' * 5000 + b"1" + b"}" * 5000])
def test_deep_json_of_strangers(body: bytes) -> None:
    with pytest.raises(SerializationError, match=r"deeper than 64|not JSON"):
        serializer("json").decode(body)


@pytest.mark.parametrize("body", [b"\x91" * 100_000, b"\x91" * 65 + b"\x01", b"\x91" * 1000 + b"\x01"])
def test_deep_msgpack_of_strangers(body: bytes) -> None:
    with pytest.raises(SerializationError, match=r"deeper than 64|not one value"):
        serializer("msgpack").decode(body)


@pytest.mark.parametrize(
    "form", [JsonSerializer(max_members=10), MsgpackSerializer(max_members=10)], ids=["json", "msgpack"]
)
def test_members_are_bounded_when_read(form: Serializer) -> None:
    write = serializer(form.name).encode
    assert form.decode(write(list(range(10)))) == list(range(10))
    assert form.decode(write(["," * 50])) == ["," * 50]
    for value in (list(range(11)), [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10, 11]], {str(i): i for i in range(11)}):
        with pytest.raises(SerializationError, match=r"more than 10 members|11 exceeds max"):
            form.decode(write(value))


@both
@pytest.mark.parametrize("size", [0, 1])
def test_lists_of_a_byte_or_two_each_are_counted_together(form: Serializer, size: int) -> None:
    """None of them is long; all of them together would take sixty times the memory of the body."""
    count, lists = 10_001, form.encode([[0] * size] * 100)
    body = {
        "json": b"[" + b",".join([lists] * count) + b"]",
        "msgpack": b"\xdd" + count.to_bytes(4, "big") + lists * count,
    }[form.name]
    with pytest.raises(SerializationError, match="more than 1000000 members"):
        form.decode(body)


def test_lists_of_one_in_one_another_are_counted_too() -> None:
    """There is no comma in them."""
    body = b"[" + b",".join([b"[" * 60 + b"]" * 60] * 20_000) + b"]"
    with pytest.raises(SerializationError, match="more than 1000000 members"):
        serializer("json").decode(body)


def test_quotes_without_an_end_are_counted_in_one_go() -> None:
    """To look for the end of the text from each of them would take a week."""
    with pytest.raises(SerializationError, match="more than 10 members"):
        JsonSerializer(max_members=10).decode(b"," * 11 + b'\\"' * 1_000_000)
    with pytest.raises(SerializationError, match="not JSON"):
        JsonSerializer(max_members=10).decode(b'["' + b"," * 11 + b'\\"' * 1_000_000)


@both
@given(body=st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_serialization_error(form: Serializer, body: bytes) -> None:
    with suppress(SerializationError):
        form.decode(body)


@given(body=st.text(st.sampled_from('[]{},:"\\ud8c0 1eE-+.tfn'), max_size=60))
def test_texts_like_json_are_a_value_or_a_serialization_error(body: str) -> None:
    form = serializer("json")
    try:
        value = form.decode(body.encode())
    except SerializationError:
        return
    again = form.decode(form.encode(value))
    assert again == value or "inf" in repr(value)  # an infinity comes back by its name


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "Expecting value at character 0"),
        (b"{} {}", "Extra data"),
        (b'{"a": NaN}', "no number NaN"),
        (b"[-Infinity]", "no number -Infinity"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        ('{"a":1}'.encode("utf-16"), "not JSON in UTF-8"),
        (b'"\xff"', "not JSON in UTF-8: invalid start byte at byte 1"),
        (rb'["\ud800"]', "half a surrogate pair"),
        (rb'["\uDC00", 1e999]', "half a surrogate pair"),
        (b"1" * 5000, "a number in the body cannot be read"),
    ],
)
def test_bytes_that_are_not_json(body: bytes, why: str) -> None:
    with pytest.raises(SerializationError, match=why):
        serializer("json").decode(body)


def test_whole_surrogate_pairs_are_read() -> None:
    assert serializer("json").decode(rb'"\ud83d\ude00"') == "😀"
    assert serializer("json").decode(rb'"\\ud800"') == "\\ud800"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not one value"),
        (b"\x01\x02", "not one value"),
        (b"\x92\x01", "not one value"),
        (b"\xc1", "not one value"),
        (b"\xa1\xff", "not UTF-8"),
        (b"\x81\x01\x02", "not one value"),  # a key that is no text
        (b"\xd4\x05a", "extension of msgpack of type 5"),
        (b"\xc7\x0c\xff" + b"\xff" * 12, "not one value"),  # a timestamp out of all years
        (b"\xdd\xff\xff\xff\xff", "not one value"),  # a list said to have four thousand million members
        (b"\xc6\xff\xff\xff\xff", "not one value"),
    ],
)
def test_bytes_that_are_not_msgpack(body: bytes, why: str) -> None:
    with pytest.raises(SerializationError, match=why):
        serializer("msgpack").decode(body)


@both
def test_texts_that_utf8_cannot_hold(form: Serializer) -> None:
    for value in ({"a": "\ud800"}, ["\ud800"], {"\ud800": [1]}):
        with pytest.raises(SerializationError, match="cannot be written in UTF-8: surrogates not allowed"):
            form.encode(value)


def test_numbers_that_are_too_large() -> None:
    with pytest.raises(SerializationError, match="64 bits of msgpack"):
        serializer("msgpack").encode({"n": 2**64})
    with pytest.raises(SerializationError, match="a number inside the value cannot be written"):
        serializer("json").encode([10**5000])


@both
def test_errors_never_show_the_value(form: Serializer) -> None:
    for value in (["hunter2", object()], {"a": "hunter2\ud800"}, {"a": "hunter2", "b": [{"c": {1, 2}}]}):
        with pytest.raises(SerializationError) as caught:
            form.encode(value)
        assert "hunter2" not in str(caught.value)


def test_bytes_that_begin_no_value_of_msgpack() -> None:
    with pytest.raises(SerializationError, match=r"not one value of msgpack: it has a byte that begins no value$"):
        serializer("msgpack").decode(b"\xc1")
