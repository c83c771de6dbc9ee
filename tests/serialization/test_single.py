from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from rocketpy.errors import SerializationError
from rocketpy.serialization import serializer

binary = serializer("binary")
string = serializer("string")


@pytest.mark.parametrize("value", [b"ab", bytearray(b"ab"), memoryview(b"ab")])
def test_bytes_stay_what_they_are(value: bytes) -> None:
    assert binary.encode(value) == b"ab"
    assert type(binary.encode(value)) is bytes
    assert binary.decode(b"\xff\x00") == b"\xff\x00"


@pytest.mark.parametrize(
    ("value", "advice"), [("text", "string"), (1, "string"), ({}, "json or msgpack"), (None, "json or msgpack")]
)
def test_binary_takes_nothing_else_for_bytes(value: object, advice: str) -> None:
    with pytest.raises(SerializationError, match=f"{type(value).__name__}, not bytes.*{advice}$"):
        binary.encode(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Grüße", "Grüße"),
        ("", ""),
        (-17, "-17"),
        (2**70, "1180591620717411303424"),
        (0.1, "0.1"),
        (True, "true"),
        (False, "false"),
        (Decimal("12.50"), "12.50"),
        (Decimal("0E-18"), "0.000000000000000000"),
        (Decimal("-1E+3"), "-1000"),
        (Decimal("1E+100000"), "1E+100000"),
        (Decimal("NaN"), "NaN"),
        (date(2013, 1, 2), "2013-01-02"),
        (datetime(2013, 1, 2, 3, 4, 5, 600), "2013-01-02T03:04:05.000600"),  # noqa: DTZ001 - Spark gives such
        (datetime(2013, 1, 2, tzinfo=UTC), "2013-01-02T00:00:00+00:00"),
        (timedelta(days=1, seconds=2, microseconds=500_000), "PT86402.5S"),
        (timedelta(microseconds=-1), "-PT0.000001S"),
        (timedelta(), "PT0S"),
    ],
)
def test_single_values_as_text(value: object, text: str) -> None:
    assert string.encode(value).decode() == text
    assert string.decode(text.encode()) == text


@pytest.mark.parametrize(
    ("value", "advice"), [(None, "leave it out"), (b"x", "binary"), ([1], "json or msgpack"), (object(), "json")]
)
def test_no_text(value: object, advice: str) -> None:
    with pytest.raises(SerializationError, match=f"{type(value).__name__}, which is not text: .*{advice}"):
        string.encode(value)


def test_text_that_utf8_cannot_hold_is_refused_both_ways() -> None:
    with pytest.raises(SerializationError, match="cannot be written in UTF-8: surrogates not allowed at 6"):
        string.encode("secret\ud800")
    with pytest.raises(SerializationError, match="not text in UTF-8: invalid start byte at byte 2"):
        string.decode(b"ab\xff")


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(SerializationError, match="a whole number inside the value cannot be written"):
        string.encode(10**5000)
