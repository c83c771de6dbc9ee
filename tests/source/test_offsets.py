"""Offsets as JSON, ranges cut for tasks, and batches limited by what queues have."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from rocketpy.message import MessageQueue
from rocketpy.spark.source.offsets import OffsetRange, as_json, limited, of_json, partitioned, total

A, B, C = (MessageQueue("T", "broker-a", number) for number in range(3))
queues = st.builds(
    MessageQueue, st.sampled_from(["T", "U"]), st.sampled_from(["a", "b-10"]), st.integers(min_value=0, max_value=12)
)


@given(st.dictionaries(queues, st.integers(min_value=0, max_value=2**63 - 1)))
def test_offsets_survive_json(offsets):
    assert of_json(json.loads(json.dumps(as_json(offsets)))) == offsets


def test_the_text_does_not_depend_on_the_order():
    assert json.dumps(as_json({A: 1, B: 2, C: 3})) == json.dumps(as_json({C: 3, B: 2, A: 1}))
    assert as_json({B: 2, A: 1}) == {"T": {"broker-a": {"0": 1, "1": 2}}}


@given(st.dictionaries(queues, st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1), st.integers(1, 3000))
def test_a_limit_is_never_passed_and_always_used(both, most):
    start = {queue: begin for queue, (begin, _) in both.items()}
    end = {queue: begin + size for queue, (begin, size) in both.items()}
    found = limited(start, end, most)
    assert total(start, found) == min(most, total(start, end))
    assert all(start[queue] <= found[queue] <= end[queue] for queue in both)
    if most >= sum(end[queue] > start[queue] for queue in both):
        assert all(found[queue] > start[queue] for queue in both if end[queue] > start[queue])


def test_queues_take_turns_where_there_are_more_than_offsets():
    start, seen = {A: 0, B: 0, C: 0}, set()
    for _ in range(3):
        end = limited(start, dict.fromkeys(start, 100), 1)
        seen |= {queue for queue in start if end[queue] != start[queue]}
        start = end
    assert seen == {A, B, C}


def test_a_queue_that_went_back_keeps_its_end():
    assert limited({A: 10, B: 0}, {A: 3, B: 50}, 5) == {A: 3, B: 5}
    assert total({A: 10, B: 0}, {A: 3, B: 50}) == 50


@given(st.lists(st.integers(0, 500), max_size=5), st.none() | st.integers(1, 40), st.none() | st.integers(1, 100))
def test_parts_are_the_whole(sizes, at_least, most):
    ranges = [OffsetRange(MessageQueue("T", "a", number), 7, 7 + size) for number, size in enumerate(sizes)]
    parts = partitioned(ranges, at_least=at_least, most_records=most)
    for whole in ranges:
        of_one = [each for each in parts if each.queue == whole.queue]
        covered = [offset for each in of_one for offset in range(each.start, each.until)]
        assert covered == list(range(whole.start, whole.until))
        assert all(each.size > 0 for each in of_one)
    if most is not None:
        assert all(each.size <= most for each in parts)


def test_large_ranges_are_cut_more_often():
    parts = partitioned([OffsetRange(A, 0, 900), OffsetRange(B, 0, 100)], at_least=10)
    assert [sum(each.queue == queue for each in parts) for queue in (A, B)] == [9, 1]
