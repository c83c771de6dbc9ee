"""Messages as columns: the same bytes as from messages, and messages when asked for."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError
from rocketpy.message import Message
from rocketpy.wire.batch import encode_batch
from rocketpy.wire.message_columns import MessageColumns
from rocketpy.wire.properties import encode_properties
from tests.strategies import messages


def columns_of(batch: list[Message], ids: list[str] | None = None) -> MessageColumns:
    texts = [encode_properties(message.wire_properties) for message in batch]
    return MessageColumns("T", [message.body for message in batch], texts, ids)


def parts_of(batch: list[Message]) -> list[tuple[str, bytes, int, list[tuple[str, str]]]]:
    return [(each.topic, each.body, each.flag, list(each.wire_properties.items())) for each in batch]


BATCHES = st.lists(messages("T"), min_size=1, max_size=5) | st.lists(
    st.sampled_from([Message("T", b"x" * size, keys=key) for size in (1, 2) for key in ("a", "b", "cc", "ü")]),
    min_size=1,
    max_size=30,
)
"""Of a few sizes, and of many."""


def ids_for(batch: list[Message]) -> list[str]:
    return [f"{number:032X}" for number in range(len(batch))]


@given(BATCHES)
def test_a_batch_of_columns_has_the_bytes_of_a_batch_of_messages(batch: list[Message]) -> None:
    ids = ids_for(batch)
    assert encode_batch(columns_of(batch)) == encode_batch(batch)
    assert encode_batch(columns_of(batch), ids) == encode_batch(batch, ids)
    assert encode_batch(columns_of(batch, ids), ["other"] * len(batch)) == encode_batch(batch, ids)
    assert encode_batch(columns_of(batch, ids)) == encode_batch(batch, ids)


@given(st.lists(st.sampled_from(["a", "b", "ü"]), min_size=1, max_size=9), st.sampled_from([["1"], ["1", "22"], ["ü"]]))
def test_texts_and_ids_may_have_the_same_length_in_characters_or_in_bytes(keys: list[str], ids: list[str]) -> None:
    batch = [Message("T", b"x", keys=key) for key in keys]
    each = [ids[at % len(ids)] for at in range(len(batch))]
    assert encode_batch(columns_of(batch), each) == b"".join(
        encode_batch([message], [unique_id]) for message, unique_id in zip(batch, each, strict=True)
    )


@given(BATCHES, st.booleans())
def test_columns_are_a_sequence_of_the_messages(batch: list[Message], has_ids: bool) -> None:
    columns = columns_of(batch, ids_for(batch) if has_ids else None)
    expected = batch
    if has_ids:
        expected = [Message("T", message.body) for message in batch]
        for message, given_one, unique_id in zip(expected, batch, ids_for(batch), strict=True):
            message.wire_properties = {**given_one.wire_properties, "UNIQ_KEY": unique_id}
    assert parts_of(list(columns)) == parts_of(expected)
    assert parts_of([columns[-1]]) == parts_of(expected[-1:])
    assert parts_of(list(columns[1:])) == parts_of(expected[1:])
    assert type(columns[0]) is Message
    assert len(columns[1:]) == len(batch) - 1
    assert columns.size == sum(columns.body_sizes) == sum(len(message.body) for message in batch)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=30), st.integers(1, 8), st.integers(1, 40))
def test_parts_are_as_large_as_they_may_be(sizes: list[int], count: int, size: int) -> None:
    columns = columns_of([Message("T", b"x" * each) for each in sizes])
    parts = list(columns.parts(count, size))
    assert [each for part in parts for each in part.bodies] == columns.bodies
    for part in parts:
        assert 1 <= len(part) <= count
        assert part.size <= size or len(part) == 1
    for part, after in pairwise(parts):
        assert len(part) == count or part.size + after.body_sizes[0] > size


def test_columns_that_fit_are_not_copied() -> None:
    columns = columns_of([Message("T", b"x")] * 3)
    assert next(columns.parts(3, 3)) is columns


@pytest.mark.parametrize("text", ["p\x01" + "x" * 32_767 + "\x02", "p\x01\ud800\x02"], ids=["long", "surrogate"])
def test_threat_M7_properties_that_a_batch_cannot_carry_are_refused(text: str) -> None:
    with pytest.raises(LocalProtocolError, match="does not fit into a batch"):
        encode_batch(MessageColumns("T", [b"a", b"b"], ["p\x01v\x02", text]), ["1", "2"])


def test_heads_are_right_however_many_sizes_there_are() -> None:
    for flags in ([0], [0, 7]):
        batch = [Message("T", b"x" * (1 + at % 3), keys=str(at % 2)) for at in range(40)]
        for at, message in enumerate(batch):
            message.flag = flags[at % len(flags)]
        assert encode_batch(batch) == b"".join(encode_batch([message]) for message in batch)
