"""Items of a batch that are read together are those that are read one by one."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import MessageDecodeError
from rocketpy.wire import batch_columns
from rocketpy.wire.batch import decode_batch, encode_batch_items
from rocketpy.wire.batch_columns import BatchColumns, BatchItem, columns_of, decode_columns, decode_columns_steps
from rocketpy.wire.steps import run_steps

SHAPES = st.tuples(st.integers(-2, 2), st.integers(0, 3), st.integers(0, 3), st.integers(1, 40))
"""Flag, bytes of the body, bytes of the properties, and how many items in a row are like that."""


def batch_of(shapes: list[tuple[int, int, int, int]]) -> list[BatchItem]:
    items: list[BatchItem] = []
    for flag, body, properties, count in shapes:
        for _ in range(count):
            mark = b"%03d" % (len(items) % 1000)
            items.append(BatchItem(flag, mark[:body], mark[:properties]))
    return items


@given(st.lists(SHAPES, max_size=12), st.integers(0, 100))
def test_items_in_any_mixture_of_lengths(shapes: list[tuple[int, int, int, int]], most: int) -> None:
    items = batch_of(shapes)
    data = encode_batch_items(items)
    assert decode_batch(data) == items
    assert list(run_steps(decode_columns_steps(data))) == items
    assert list(decode_columns(data, most=most)) == items[:most]
    assert list(run_steps(decode_columns_steps(data, most=most))) == items[:most]


@given(st.lists(SHAPES, min_size=1, max_size=5), st.data())
def test_threat_M1_damage_is_found_where_it_is(shapes: list[tuple[int, int, int, int]], data: st.DataObject) -> None:
    items = batch_of(shapes)
    whole = bytearray(encode_batch_items(items))
    damaged = data.draw(st.integers(0, len(items) - 1))
    at = len(encode_batch_items(items[:damaged]))
    field = data.draw(st.sampled_from([0, 16, 20 + len(items[damaged].body)]))
    layout = ">h" if field >= 20 else ">i"
    (value,) = struct.unpack_from(layout, whole, at + field)
    struct.pack_into(layout, whole, at + field, value + data.draw(st.sampled_from([1, -1, 256])))
    with pytest.raises(MessageDecodeError, match=f"item {damaged} of a batch, at byte {at},") as caught:
        decode_columns(bytes(whole))
    assert caught.value.position == at


def test_what_nobody_looks_at_does_not_make_items_unlike(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [BatchItem(0, b"body", b"A\x01%03d\x02" % number) for number in range(200)]
    data = bytearray(encode_batch_items(items))
    for number in range(200):
        struct.pack_into(">ii", data, number * (len(data) // 200) + 4, number, -number)  # magic number and checksum
    cuts: list[int] = []
    cut = batch_columns._cut

    def counting(data: bytes, position: int, size: int, body_size: int, count: int, *into: list[bytes]) -> None:
        cuts.append(count)
        cut(data, position, size, body_size, count, *into)

    monkeypatch.setattr(batch_columns, "_cut", counting)
    assert decode_batch(bytes(data)) == items
    assert cuts == [199]


def test_columns_are_a_sequence_of_items() -> None:
    items = batch_of([(1, 2, 3, 4), (0, 1, 0, 2)])
    columns = columns_of(items)
    assert list(columns) == items
    assert (columns[4], columns[-1], len(columns)) == (items[4], items[-1], 6)
    assert isinstance(columns[1:3], BatchColumns)
    assert list(columns[1:3]) == items[1:3]


def test_a_batch_that_is_read_is_in_memory_twice_and_no_more() -> None:
    data = encode_batch_items([BatchItem(0, bytes(64 * 1024), b"A\x01b\x02")] * 20)
    tracemalloc.start()
    try:
        items = decode_columns(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(items) == 20
    assert peak < 1.5 * len(data)  # `data` was there before
