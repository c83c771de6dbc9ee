"""Messages say which row they are, in the same words when the row is sent again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy import Message, MessageExt
from rocketpy.spark.provenance import Origin, Provenance, provenance_of
from rocketpy.wire.message_id import decode_unique_id, uniq_id_offset_in_month
from rocketpy.wire.properties import decode_properties, encode_properties


def message(topic: str = "Orders") -> Message:
    return Message(topic, b"x", keys="AA-1", properties={"carrier": "UA"})


def received(sent: Message) -> MessageExt:
    return MessageExt(sent.topic, sent.body, properties=sent.wire_properties)


def test_a_job_says_application_stage_partition_and_row() -> None:
    marked = Provenance(app="local-17", stage=4, partition=3).mark(message(), 9)
    unique_id = marked.wire_properties.pop("UNIQ_KEY")
    assert (len(unique_id), unique_id[20:]) == (32, "000000000009")
    assert marked.wire_properties == {
        "WAIT": "true", "KEYS": "AA-1", "carrier": "UA", "SPARK_APP": "local-17", "SPARK_STAGE": "4",
        "SPARK_PART": "3", "SPARK_SEQ": "9",
    }  # fmt: skip
    assert provenance_of(received(marked)) == Origin("Orders", "local-17", 4, 3, 9)


def test_a_micro_batch_says_query_and_batch_and_nothing_that_changes_when_it_is_run_again() -> None:
    first = Provenance(app="local-17", query="q", batch=0, stage=4, partition=0).mark(message(), 1)
    again = Provenance(app="local-18", query="q", batch=0, stage=9, partition=0).mark(message(), 1)
    assert "SPARK_STAGE" not in first.wire_properties
    assert (
        provenance_of(received(first))
        == provenance_of(received(again))
        == Origin("Orders", "q", 0, 0, 1, streamed=True)
    )


def test_a_job_and_a_query_of_one_name_do_not_mix_up() -> None:
    job = Provenance(app="nightly", stage=0, partition=0).mark(message(), 1)
    query = Provenance(query="nightly", batch=0, partition=0).mark(message(), 1)
    assert provenance_of(job) != provenance_of(query)


def test_outside_of_spark_there_is_no_stage() -> None:
    marked = Provenance(app="nightly", partition=0).mark(message(), 1)
    assert provenance_of(marked) == Origin("Orders", "nightly", None, 0, 1)


def test_a_message_that_is_given_out_twice_is_two_rows() -> None:
    provenance, same = Provenance(app="local-17", stage=4, partition=3), message()
    marked = [provenance.mark(same, row) for row in (1, 2, 3)]
    assert [provenance_of(each).row for each in marked] == [1, 2, 3]
    assert {each.body for each in marked} == {b"x"}


def test_nothing_is_left_of_where_a_message_came_from_before() -> None:
    old = Provenance(query="q", batch=7, partition=5).mark(message(), 1)
    marked = Provenance(app="local-17", stage=4, partition=3).mark(old, 2)
    assert provenance_of(marked) == Origin("Orders", "local-17", 4, 3, 2)
    assert provenance_of(old) == Origin("Orders", "q", 7, 5, 1, streamed=True)
    assert marked.properties["carrier"] == "UA"
    assert "SPARK_QID" not in marked.properties


@pytest.mark.parametrize("name", ["SPARK_BID", "SPARK_STAGE"])
def test_a_part_of_another_provenance_is_not_taken_for_one_of_this(name: str) -> None:
    provenance = Provenance(app="nightly", partition=3)
    given = Message("Orders", b"x", properties={name: "77", "SPARK_QID": "q"})
    encoded = provenance.mark_encoded([encode_properties(given.wire_properties)], [9])
    marked = provenance.mark(given, 9)
    assert provenance_of(marked) == Origin("Orders", "nightly", None, 3, 9)
    del marked.wire_properties["UNIQ_KEY"]
    assert [decode_properties(text) for text in encoded] == [marked.wire_properties]


def test_what_all_messages_share_is_made_once() -> None:
    assert Provenance(app="local-17", stage=4, partition=3).properties == {
        "SPARK_APP": "local-17", "SPARK_STAGE": "4", "SPARK_PART": "3",
    }  # fmt: skip


GOOD = Provenance(query="q", batch=7, partition=5).mark(message(), 1).properties


@pytest.mark.parametrize("name", ["SPARK_QID", "SPARK_PART", "SPARK_SEQ"])
def test_messages_of_others_have_no_origin(name: str) -> None:
    assert provenance_of(MessageExt("Orders", b"x", properties=GOOD)) is not None
    without = {other: text for other, text in GOOD.items() if other != name}
    assert provenance_of(MessageExt("Orders", b"x", properties=without)) is None
    assert provenance_of(message()) is None


@pytest.mark.parametrize("name", ["SPARK_BID", "SPARK_PART", "SPARK_SEQ"])
@pytest.mark.parametrize("text", ["", "x", "-1", "1.0", " 1", "１", "9" * 20, "1_0"])
def test_numbers_that_no_sink_wrote_are_no_origin(name: str, text: str) -> None:
    assert provenance_of(MessageExt("Orders", b"x", properties={**GOOD, name: text})) is None


@pytest.mark.slow
@given(
    st.sets(
        st.tuples(
            st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 2), st.integers(1, 3), st.sampled_from("TU")
        ),
        max_size=30,
    ),
    st.booleans(),
)
def test_different_rows_have_different_origins(rows: set[tuple[str, int, int, int, str]], stream: bool) -> None:
    origins = set()
    for source, step, partition, row, topic in rows:
        told = {"query": source, "batch": step} if stream else {"app": source, "stage": step}
        origins.add(provenance_of(Provenance(partition=partition, **told).mark(message(topic), row)))
    assert None not in origins
    assert len(origins) == len(rows)


# --- unique ids -----------------------------------------------------------------------------------------


def test_the_unique_id_of_a_row_is_the_same_when_it_is_sent_again() -> None:
    first = Provenance(app="local-17", query="q", batch=0, stage=4, partition=3)
    again = Provenance(app="local-18", query="q", batch=0, stage=9, partition=3)
    assert (
        first.unique_ids("Orders", [9])[0] == again.unique_ids("Orders", [9])[0] == "76F4D9F3C3D897525969000000000009"
    )
    assert first.id_of_key("Orders", "AA-1") == again.id_of_key("Orders", "AA-1")
    assert Provenance(query="q", batch=0, partition=4).id_of_key("Orders", "AA-1") == first.id_of_key("Orders", "AA-1")


@pytest.mark.parametrize("row", [1, 65_536, 2**32, 2**47])
def test_tools_read_a_unique_id_as_one_of_a_client(row: int) -> None:
    made = Provenance(query="q", batch=0, partition=3).unique_ids("Orders", [row])[0]
    found = decode_unique_id(made, now=1_750_000_000_000)
    assert found.counter == row % 65_536
    assert uniq_id_offset_in_month(made) == row // 65_536
    by_key = Provenance(query="q", batch=0, partition=3).id_of_key("Orders", str(row))
    assert uniq_id_offset_in_month(by_key) == 0
    assert len(by_key) == 32


def test_a_unique_id_of_before_is_replaced() -> None:
    old = Provenance(query="q", batch=7, partition=5).mark(message(), 1)
    marked = Provenance(app="local-17", stage=4, partition=3).mark(old, 2)
    assert (
        marked.wire_properties["UNIQ_KEY"]
        == Provenance(app="local-17", stage=4, partition=3).unique_ids("Orders", [2])[0]
    )
    assert received(marked).message_id == marked.wire_properties["UNIQ_KEY"]


def test_steps_topics_partitions_and_rows_have_ids_of_their_own() -> None:
    made = [
        Provenance(partition=partition, **told).unique_ids(topic, [row])[0]
        for told in (
            {"query": "q", "batch": 1}, {"query": "q", "batch": 2}, {"query": "q1", "batch": 1},
            {"query": "1", "batch": 11}, {"app": "q", "stage": 1}, {"app": "q"}, {"app": "q1"},
        )
        for partition in (0, 1, 11)
        for topic in ("Orders", "Orders1", "1")
        for row in (1, 2)
    ]  # fmt: skip
    keys = [
        Provenance(query="q", batch=1, partition=0).id_of_key(topic, key)
        for topic, key in [("Orders", "1"), ("Orders", "11"), ("Orders1", "1"), ("Order", "s1"), ("Orders", "0")]
    ]
    assert len(set(made + keys)) == len(made) + len(keys)
