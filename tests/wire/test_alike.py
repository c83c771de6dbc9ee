"""What is said of many texts at once is true of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.wire.alike import have_same_length, have_same_names, varying_columns
from rocketpy.wire.properties import decode_properties

TEXTS = st.lists(st.text("AB\x01\x02x", min_size=9, max_size=9).map(str.encode), min_size=1, max_size=3)


@given(TEXTS, st.integers(1, 4), st.randoms())
def test_columns_are_all_in_which_texts_differ(texts: list[bytes], times: int, random: object) -> None:
    columns = varying_columns(texts * times)
    if columns is not None:
        for at in range(9):
            column = bytes(text[at] for text in texts * times)
            assert columns.get(at, column[:1] * len(column)) == column


@given(TEXTS)
def test_texts_that_tell_of_themselves_are_never_missed(texts: list[bytes]) -> None:
    columns = varying_columns(texts)  # all of so few are looked at
    assert columns is not None
    assert all(columns[at] == bytes(text[at] for text in texts) for at in columns)


def test_one_that_differs_where_others_do_not_is_found() -> None:
    texts = [b"KEYS\x01%05d\x02" % (number % 10) for number in range(100)]
    assert set(varying_columns(texts) or ()) == {9}
    for number in (1, 49, 51, 98):
        changed = texts.copy()
        changed[number] = b"KEYZ\x0100000\x02"
        assert varying_columns(changed) is None


@pytest.mark.parametrize("count", [64, 100, 128, 200, 256, 500, 512, 1000, 1024, 2000, 2048, 4096])
@pytest.mark.parametrize("first", [0, 51_201, 0xF00F])
def test_numbers_that_are_counted_up_are_seen_to_differ(count: int, first: int) -> None:
    texts = [b"%06d\x02%06X" % (first + number, first + number) for number in range(count)]
    assert varying_columns(texts) is not None


def test_too_many_columns_are_left_to_others() -> None:
    assert len(varying_columns([b"a" * 128 + b"c" * 9, b"b" * 128 + b"c" * 9]) or ()) == 128
    assert varying_columns([b"a" * 129, b"b" * 129]) is None


@given(st.lists(st.integers(0, 3), max_size=5))
def test_lengths(lengths: list[int]) -> None:
    assert have_same_length([bytes(length) for length in lengths]) == (len(set(lengths)) == 1)


@given(TEXTS, st.integers(1, 4))
def test_names_that_are_said_to_be_the_same_are(texts: list[bytes], times: int) -> None:
    if have_same_names(texts * times):
        assert len({tuple(decode_properties(text.decode())) for text in texts}) == 1


@pytest.mark.parametrize(
    ("form", "same"),
    [
        (b"KEYS\x01%03d\x02", True),
        (b"A\x01b\x02KEYS\x01%03d\x02UNIQ_KEY\x01same\x02", True),
        (b"KEYS\x01v%03d", True),
        (b"N%03d\x01v\x02", False),
        (b"A\x01b\x02%03d\x01v\x02", False),
        (b"%03d", False),
    ],
)
def test_names_are_the_same_where_values_differ_and_nothing_else(form: bytes, same: bool) -> None:
    assert have_same_names([form % number for number in range(40)]) == same


def test_a_separator_in_a_value_is_another_shape() -> None:
    texts = [b"A\x01abcd\x02"] * 20
    for odd in (b"A\x01a\x02B\x01\x02", b"A\x01ab\x01d\x02", b"A\x02abcd\x02"):
        assert not have_same_names([odd, *texts])
        assert not have_same_names([*texts, odd])
        assert not have_same_names([*texts, odd, *texts])
