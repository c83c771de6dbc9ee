"""The Bloom filter, against the one of Apache's filter module."""

from __future__ import annotations

from typing import Any

import pytest

from rocketpy_broker_sim.filter.bloom import BloomFilter, BloomFilterData
from tests.vectors import java_cases


def bits_of(bloom: BloomFilter, text: str) -> int:
    """The mask of a text."""
    return BloomFilterData(bloom.bit_num, bloom.positions(text)).mask


def test_F6_the_shape_is_java_s() -> None:
    for shape, found in java_cases("bloom_shape"):
        bloom = BloomFilter(shape["f"], shape["n"])
        assert (bloom.hashes, bloom.bit_num) == (found["k"], found["m"])


@pytest.mark.parametrize(("case", "positions"), java_cases("bloom_positions"), ids=str)
def test_F6_the_bits_of_a_text_are_java_s(case: dict[str, Any], positions: list[int]) -> None:
    assert list(BloomFilter(case["f"], case["n"]).positions(case["text"])) == positions


def test_F6_a_map_is_java_s_and_hits_are_found_in_it() -> None:
    ((made, wanted),) = java_cases("bloom_bits")
    bloom = BloomFilter(made["f"], made["n"])
    assert bloom.bits(bits_of(bloom, text) for text in made["texts"]).hex() == wanted
    for asked, is_hit in java_cases("bloom_hit"):
        bits = int.from_bytes(bytes.fromhex(asked["bits"]), "little")
        mask = bits_of(bloom, asked["text"])
        assert (bits & mask == mask) is is_hit


@pytest.mark.parametrize(("rate", "expected"), [(20, 32), (1, 100)])
def test_F6_hits_that_are_none_are_as_rare_as_was_asked_for(rate: int, expected: int) -> None:
    bloom = BloomFilter(rate, expected)
    inside = int.from_bytes(bloom.bits(bloom.data(f"g{number}", "T").mask for number in range(expected)), "little")
    assert all(inside & mask == mask for mask in (bloom.data(f"g{number}", "T").mask for number in range(expected)))
    outside = [bloom.data(f"other{number}", "T").mask for number in range(2000)]
    assert sum(inside & mask == mask for mask in outside) / 20 < 1.5 * rate


def test_bits_of_another_filter_are_told_apart() -> None:
    bloom = BloomFilter(20, 32)
    assert bloom.is_valid(bloom.data("g", "T"))
    assert not bloom.is_valid(BloomFilter(20, 64).data("g", "T"))
    assert not bloom.is_valid(BloomFilterData(112, (1, 2)))
    assert not bloom.is_valid(None)
