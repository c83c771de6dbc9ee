"""What markers say of micro-batches, whatever order they are read in."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import ConfigError
from rocketpy.message import Message
from rocketpy.spark.delivery.markers import BatchId, Begun, Committed, Markers, Writer, begin_message, commit_message
from rocketpy.wire.properties import encode_properties

ORDERS = Writer("query-1", "Orders")


def encoded(message: Message) -> bytes:
    return encode_properties(message.wire_properties).encode()


def begin(number: int, partition: int = 0, *, writer: Writer = ORDERS, run: str = "r", marker: str = "m") -> bytes:
    return encoded(begin_message("Markers", BatchId(writer, number), run, partition, marker))


def commit(number: int, *, writer: Writer = ORDERS) -> bytes:
    return encoded(commit_message("Markers", BatchId(writer, number), "r", {0: 5}))


def test_a_marker_says_for_people_what_it_says() -> None:
    message = commit_message("Markers", BatchId(ORDERS, 7), "r", {1: 20, 0: 5})
    assert json.loads(message.body) == {
        "marker": "commit", "query": "query-1", "topic": "Orders", "batch": 7, "rows": {"0": 5, "1": 20},
    }  # fmt: skip
    assert message.keys == ("query-1",)
    assert "rows" not in json.loads(commit_message("Markers", BatchId(ORDERS, 7), "r", None).body)
    assert commit_message("Markers", BatchId(Writer("every night", None), 7), "r", None).keys == ()


def test_what_has_begun_is_known_until_it_has_been_written() -> None:
    markers = Markers()
    markers.note(begin(3, 1, run="r1", marker="m1"), 1000)
    markers.note(begin(3, 1, run="r2", marker="m2"), 2000)
    batch = BatchId(ORDERS, 3)
    assert markers.begun == {batch: (Begun(1, "r1", "m1", 1000), Begun(1, "r2", "m2", 2000))}
    assert not markers.is_committed(batch)
    markers.note(commit(3), 3000)
    assert markers.begun == {}
    assert markers.is_repeated(batch)
    assert markers.committed == {ORDERS: Committed(3, 3000)}
    markers.note(begin(3, 1), 4000)
    assert markers.begun == {}, "nobody asks what has begun of what has been written"


def test_markers_only_go_forward() -> None:
    markers = Markers()
    for number in (4, 2, 4, 3):
        markers.note(commit(number), number)
    assert markers.committed == {ORDERS: Committed(4, 4)}
    assert not markers.is_repeated(BatchId(ORDERS, 5))
    assert markers.is_repeated(BatchId(ORDERS, 4))
    with pytest.raises(ConfigError, match="micro-batch 3 of query-1 comes after micro-batch 4 has been written"):
        markers.is_repeated(BatchId(ORDERS, 3))


@pytest.mark.parametrize("other", [Writer("query-2", "Orders"), Writer("query-1", "Bills"), Writer("query-1", None)])
def test_writers_do_not_speak_for_one_another(other: Writer) -> None:
    markers = Markers()
    markers.note(commit(4), 1)
    markers.note(begin(5), 2)
    assert not markers.is_committed(BatchId(other, 4))
    assert BatchId(other, 5) not in markers.begun


MARKER = begin_message("Markers", BatchId(ORDERS, 3), "r", 1, "m").wire_properties


@pytest.mark.parametrize("missing", ["TAGS", "SPARK_QID", "SPARK_BID", "SPARK_PART", "SPARK_RUN", "SPARK_MARKER"])
def test_other_messages_are_ignored(missing: str) -> None:
    markers = Markers()
    markers.note(encode_properties({name: text for name, text in MARKER.items() if name != missing}).encode(), 1)
    markers.note(encode_properties({**MARKER, missing: "x"}).encode(), 1) if missing in ("TAGS", "SPARK_BID") else None
    markers.note(b"", 1)
    assert markers == Markers()


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 4), st.integers(0, 2), st.sampled_from([ORDERS, Writer("q", None)])),
        max_size=20,
    ).flatmap(lambda told: st.tuples(st.just(told), st.permutations(told)))
)
def test_the_order_in_which_markers_are_read_does_not_matter(orders) -> None:
    found = []
    for told in orders:
        markers = Markers()
        for is_commit, number, partition, writer in told:
            markers.note(commit(number, writer=writer) if is_commit else begin(number, partition, writer=writer), 1)
        found.append((markers.committed, {batch: sorted(begun) for batch, begun in markers.begun.items()}))
    assert found[0] == found[1]


def test_a_copy_does_not_change() -> None:
    markers = Markers()
    markers.note(begin(3), 1)
    copy = markers.copy()
    markers.note(begin(3, 1), 1)
    markers.note(commit(2), 1)
    assert (len(copy.begun[BatchId(ORDERS, 3)]), copy.committed) == (1, {})
