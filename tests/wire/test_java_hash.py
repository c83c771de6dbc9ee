"""Java's String.hashCode, as Apache's classes computed it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketpy.wire.java_hash import string_hash, tags_code
from tests.tables import Table
from tests.vectors import java_cases, vector


def test_string_hash_is_java_s() -> None:
    with Table() as table:
        for text, expected in [*java_cases("string_hash"), *vector("java_string_hash").items()]:
            with table.row(f"{text!a:.40}"):
                assert string_hash(text) == expected


def test_tags_code_is_the_sign_extended_hash() -> None:
    with Table() as table:
        for text, expected in [*java_cases("tags_code"), *java_cases("tags_code_null_filter")]:
            with table.row(f"{text!a:.40}"):
                assert tags_code(text) == expected


def reference(text: str) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    total = 0
    for at in range(0, len(units), 2):
        total = total * 31 + int.from_bytes(units[at : at + 2], "big")
    total &= 0xFFFFFFFF
    return total - 2**32 if total >= 2**31 else total


@given(st.text(alphabet=st.characters(), max_size=400))
def test_every_text_hashes_over_its_utf16_units(text: str) -> None:
    assert string_hash(text) == reference(text)
    assert -(2**31) <= string_hash(text) < 2**31


def test_long_texts_are_hashed_without_being_kept() -> None:
    assert string_hash("k" * 10_000) == reference("k" * 10_000)
