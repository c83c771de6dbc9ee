"""The text of java.util.Properties as a peer or a strange file may write it."""

from __future__ import annotations

import time

import pytest

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.properties_text import Entry, read_entries, read_properties


def test_a_line_of_very_many_parts_is_read_in_linear_time() -> None:
    parts = 100_000
    started = time.process_time()
    assert read_properties("k=" + "abcdefghi\\\n" * parts) == {"k": "abcdefghi" * parts}
    # Some 0.1 s; joining the parts one by one took half a minute.
    assert time.process_time() - started < 5


def test_a_line_goes_on_after_an_odd_number_of_backslashes() -> None:
    text = "a=1\\\\\nb=2\\\\\\\n  \\\n#3\n\\\n\nc=4\n\\\n"
    assert read_entries(text) == {"a": Entry("1\\", 1), "b": Entry("2\\#3", 2), "c": Entry("4", 7)}


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        (r"a\==b", "a=", "b"),
        (r"a\:b:c", "a:b", "c"),
        (r"a\ b c", "a b", "c"),
        (r"\\=b", "\\", "b"),
        (r"a\=b", "a=b", ""),
    ],
)
def test_a_separator_behind_a_backslash_belongs_to_the_key(text: str, key: str, value: str) -> None:
    assert read_properties(text) == {key: value}


def test_a_character_that_java_escapes_in_two_halves_is_one() -> None:
    assert read_properties("a=\\ud83d\\ude00\\u00e9") == {"a": "\U0001f600\u00e9"}


@pytest.mark.parametrize(
    "text",
    [
        "a=\\ud800",
        "\\udc00=1",
        "a=\\ude00\\ud83d",
        "a=\\u12",
        "a=\\u",
        "a=\\u+123",
        "a=\\u 123",
        "a=\\u1_23",
        "a=\\u٣٣٣٣",
    ],
)
def test_threat_F10_what_is_no_escaped_character_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="in the properties") as caught:
        read_properties(text)
    assert str(caught.value).isprintable()
