"""Numbers in arrays are those of the layouts that `struct` packs."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.wire.words import big_endian, int_array, long_array, words_of

INTS = st.lists(st.integers(-(1 << 31), (1 << 31) - 1))
LONGS = st.lists(st.integers(-(1 << 63), (1 << 63) - 1))


@given(INTS)
def test_ints(numbers: list[int]) -> None:
    assert list(int_array(numbers)) == numbers
    assert big_endian(int_array(numbers)).tobytes() == b"".join(struct.pack(">i", number) for number in numbers)


@given(LONGS)
def test_longs_and_their_words(numbers: list[int]) -> None:
    assert list(long_array(numbers)) == numbers
    high, low = words_of(long_array(numbers))
    words = [struct.unpack(">ii", struct.pack(">q", number)) for number in numbers]
    assert list(zip(high, low, strict=True)) == words


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(struct.error):
        int_array([1 << 31])
    with pytest.raises(struct.error):
        long_array([1 << 63])
