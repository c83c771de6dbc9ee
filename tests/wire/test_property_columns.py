"""The short way of reading the properties of many messages: it says what the long way says, or leaves it to that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketpy.wire import property_columns
from rocketpy.wire.properties import decode_properties
from rocketpy.wire.property_columns import common_properties

NAMES = ["KEYS", "KEY", "E", "WAIT", "\N{SNOWMAN}"]
TEXTS = st.sampled_from(
    ["true", "1", "", "KEYS", "Größe", "\x01", "\x02", "\x02KEYS\x01", "1\x02WAIT\x01true", "\ud800"]
)


def encoded(row: list[tuple[str, str]]) -> bytes:
    return "".join(f"{name}\x01{value}\x02" for name, value in row).encode("utf-8", "surrogatepass")


def one_by_one(found: dict[str, list[str]]) -> list[dict[str, str]]:
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.none() | st.sampled_from(["true", "Größe"])), min_size=1, max_size=6),
    st.lists(st.lists(TEXTS, min_size=6, max_size=6), min_size=1, max_size=40),
    st.sampled_from([b"", b"\x02", b"KEYS\x01a\x02", b"\x01"]),
)
def test_both_ways_say_the_same(shape: list[tuple[str, str | None]], fills: list[list[str]], odd: bytes) -> None:
    packed = [
        encoded([(name, given or fill) for (name, given), fill in zip(shape, row, strict=False)]) for row in fills
    ]
    if odd and len(packed) > 1:  # between two messages, where it could be taken for a part of either
        packed[0] += odd
        packed[1] = packed[1].removeprefix(odd)
    found = common_properties(packed)
    joined = b"\x02".join([*packed, b""])
    long_way = property_columns._all(joined, packed[0].count(b"\x02"), len(packed))
    if len({each.count(b"\x02") for each in packed}) == 1 and packed[0].count(b"\x02"):
        assert found == long_way
        assert found is None or list(found) == list(long_way or ())
    if found is not None:
        assert one_by_one(found) == [decode_properties(each.decode("utf-8", "replace")) for each in packed]


def test_the_short_way_is_the_one_that_is_taken() -> None:
    """Messages of one producer in batches: two values differ, the others are the same, one name comes twice."""
    packed = [
        encoded([("WAIT", "true"), ("KEYS", f"k{n}"), ("UNIQ_KEY", f"{n:032X}"), ("WAIT", "true"), ("CLUSTER", "c")])
        for n in range(1000)
    ]
    found = property_columns._varying(packed, b"\x02".join([*packed, b""]))
    assert found is not None
    assert list(found) == ["WAIT", "KEYS", "UNIQ_KEY", "CLUSTER"]
    assert one_by_one(found) == [decode_properties(each.decode()) for each in packed]


def test_of_messages_with_many_values_that_differ_everything_is_taken_apart() -> None:
    """A search of all their text for each of these names, every one a part of the next, took seconds."""
    names = ["a" * (100 + number) for number in range(property_columns._VARYING + 1)]
    packed = [encoded([(name, f"{n}{name[0]}") for name in names]) for n in range(100)]
    assert property_columns._varying(packed, b"\x02".join([*packed, b""])) is None
    assert common_properties(packed) == {name: [f"{n}a" for n in range(100)] for name in names}


def test_a_value_that_differs_in_one_message_only_is_found() -> None:
    packed = [encoded([("KEYS", str(n)), ("TAGS", "b" if n == 777 else "a")]) for n in range(1000)]
    found = common_properties(packed)
    assert found is not None
    assert [n for n, tag in enumerate(found["TAGS"]) if tag == "b"] == [777]


def test_what_stands_between_values_may_be_a_part_of_what_stands_elsewhere() -> None:
    packed = [encoded([("A", str(n)), ("B", str(-n)), ("C", "c"), ("A", str(n + 1)), ("B", "0")]) for n in range(9)]
    found = common_properties(packed)
    assert found == {"A": [str(n + 1) for n in range(9)], "B": ["0"] * 9, "C": ["c"] * 9}


def test_separators_that_only_messages_together_have_in_the_right_places() -> None:
    assert common_properties([b"a\x01b\x02a", b"\x01d\x02"]) is None
    assert common_properties([b"a\x01b", b"b\x01c\x02\x02a\x01d\x02b\x01e\x02"]) is None
