"""What answers to pulls mean for a read: gaps are passed over, losses are told, and nothing hangs."""

from __future__ import annotations

import pytest

from rocketpy.errors import RemoteProtocolError
from rocketpy.message import MessageQueue
from rocketpy.results import PulledRecords, PullStatus
from rocketpy.spark.source.loss import DataLossError
from rocketpy.spark.source.offsets import OffsetRange
from rocketpy.spark.source.planning import ranges_between
from rocketpy.spark.source.progress import Progress

QUEUE = MessageQueue("T", "broker-a", 0)
FOUND, EMPTY, NO_MATCH, ILLEGAL = (
    PullStatus.FOUND,
    PullStatus.NO_NEW_MSG,
    PullStatus.NO_MATCHED_MSG,
    PullStatus.OFFSET_ILLEGAL,
)


def answer(status, following, lowest=0, highest=100, remark=None):
    return PulledRecords(status, following, lowest, highest, 0, b"x" if status is FOUND else b"", remark)


def progress(start=10, until=50, *, fail=True, patience=2):
    return Progress(OffsetRange(QUEUE, start, until), fail, patience)


def test_it_ends_once_the_position_has_passed_the_end():
    read = progress()
    read.note(answer(FOUND, 42), from_master=True)
    assert (read.position, read.is_done) == (42, False)
    read.note(answer(FOUND, 74), from_master=True)
    assert read.is_done


def test_filtered_messages_are_passed_over():
    read = progress()
    read.note(answer(NO_MATCH, 30), from_master=True)
    assert (read.position, read.pause) == (30, False)
    read.note(answer(NO_MATCH, 60), from_master=True)
    assert read.is_done


@pytest.mark.parametrize("status", [NO_MATCH, ILLEGAL, EMPTY])
def test_expired_messages_are_an_error(status):
    with pytest.raises(
        DataLossError, match=r"from offset 10 to 20 are gone: the oldest message has offset 20"
    ) as failed:
        progress().note(answer(status, 20, lowest=20), from_master=True)
    assert (failed.value.start, failed.value.until) == (10, 20)
    with pytest.raises(DataLossError, match="from offset 10 to 50 are gone"):
        progress().note(answer(status, 70, lowest=70), from_master=True)


@pytest.mark.parametrize("until", [30, 50])
def test_messages_that_are_deleted_before_the_queue_begins_behind_them(until, caplog):
    deleted = answer(NO_MATCH, 40, remark="MESSAGE_WAS_REMOVING")
    with pytest.raises(DataLossError, match=r"are gone: the broker has deleted them") as failed:
        progress(until=until).note(deleted, from_master=True)
    assert (failed.value.start, failed.value.until) == (10, min(40, until))
    read = progress(until=until, fail=False)
    assert not read.note(deleted, from_master=True)
    assert read.position == 40
    assert f"offset 10 to {min(40, until)} are gone" in caplog.text


@pytest.mark.parametrize("until", [20, 50])
def test_deleted_messages_that_an_answer_passes_over(until):
    with pytest.raises(DataLossError, match=r"are gone: the oldest message has offset 25") as failed:
        progress(until=until).note(answer(FOUND, 42), from_master=True, first=25, expired=True)
    assert (failed.value.start, failed.value.until) == (10, min(25, until))
    read = progress(until=until, fail=False)
    assert read.note(answer(FOUND, 42), from_master=True, first=25, expired=True)
    assert read.position == 42


def test_gaps_of_compaction_are_passed_over():
    read = progress()
    assert read.note(answer(FOUND, 42), from_master=True, first=25)
    assert read.position == 42
    assert read.note(answer(FOUND, 50), from_master=True, first=42, expired=True)


@pytest.mark.parametrize(
    ("told", "first"), [(answer(FOUND, 42), 25), (answer(NO_MATCH, 42, remark="MESSAGE_WAS_REMOVING"), None)]
)
def test_what_a_replica_has_deleted_is_asked_of_the_master(told, first):
    read = progress()
    assert not read.note(told, from_master=False, first=first)
    assert (read.position, read.ask_master) == (10, True)


def test_what_a_replica_finds_counts_while_there_is_no_master(caplog):
    read = progress(fail=False)
    assert read.note(answer(FOUND, 30), from_master=False, first=20, no_master=True)
    assert (read.position, read.ask_master) == (30, False)
    read.note(answer(NO_MATCH, 40, remark="MESSAGE_WAS_REMOVING"), from_master=False, no_master=True)
    assert read.position == 40
    assert "offset 30 to 40 are gone: the broker has deleted them" in caplog.text


@pytest.mark.parametrize("status", [NO_MATCH, ILLEGAL])
def test_expired_messages_are_passed_over_if_the_user_says_so(status, caplog):
    read = progress(fail=False)
    read.note(answer(status, 20, lowest=20), from_master=True)
    assert (read.position, read.is_done) == (20, False)
    assert "offset 10 to 20 are gone" in caplog.text


@pytest.mark.parametrize("status", [EMPTY, ILLEGAL])
def test_a_queue_that_ends_too_early_gets_a_moment_and_then_is_loss(status):
    read = progress(patience=2)
    for _ in range(2):
        read.note(answer(status, 10, highest=10), from_master=True)
    assert read.pause
    with pytest.raises(DataLossError, match="from offset 10 to 50 are gone: the queue ends at offset 10"):
        read.note(answer(status, 10, highest=10), from_master=True)
    going_on = progress(fail=False, patience=0)
    going_on.note(answer(status, 10, highest=10), from_master=True)
    assert going_on.is_done


def test_a_replica_that_lags_behind_is_no_loss():
    read = progress(patience=0)
    for status in (EMPTY, ILLEGAL, NO_MATCH):
        read.note(answer(status, 10, highest=10), from_master=False)
        assert read.ask_master
    read.note(answer(FOUND, 50), from_master=True)
    assert read.is_done
    assert not read.ask_master


@pytest.mark.parametrize("reset_to", [0, 10, 30, 100])
def test_a_reset_of_the_group_does_not_move_a_read(reset_to):
    """A broker answers pulls with the new offset of the group, a few times, although the position exists."""
    read = progress(patience=0)
    for number in range(9):
        read.note(answer(ILLEGAL, reset_to), from_master=True)
        assert (read.position, read.is_done, read.pause) == (10, False, number > 0)
    read.note(answer(FOUND, 50), from_master=True)
    assert read.is_done


def test_a_reset_that_is_told_for_ever_is_an_error():
    read = progress()
    for _ in range(20):
        read.note(answer(ILLEGAL, 100), from_master=True)
    with pytest.raises(RemoteProtocolError, match=r"does not move on.*from offset 10.*that it names is 100"):
        read.note(answer(ILLEGAL, 100), from_master=True)


def test_a_broker_that_never_moves_on_is_an_error():
    read = progress()
    for _ in range(20):
        read.note(answer(FOUND, 10), from_master=True)
    with pytest.raises(RemoteProtocolError, match="does not move on"):
        read.note(answer(FOUND, 10), from_master=True)


# --- micro-batches --------------------------------------------------------------------------------------

OTHER = MessageQueue("T", "broker-b", 1)


def between(start, end, oldest, *, fail=True):
    return ranges_between(start, end, oldest, fail_on_data_loss=fail)


def test_queues_without_anything_new_are_left_out():
    assert between({QUEUE: 5, OTHER: 7}, {QUEUE: 5, OTHER: 9}, {OTHER: 0}) == [OffsetRange(OTHER, 7, 9)]


def test_a_new_queue_is_read_from_its_oldest_message_on():
    assert between({QUEUE: 5}, {QUEUE: 5, OTHER: 9}, {OTHER: 4}) == [OffsetRange(OTHER, 4, 9)]


def test_expiry_between_micro_batches():
    with pytest.raises(DataLossError, match="from offset 5 to 8 are gone"):
        between({QUEUE: 5}, {QUEUE: 20}, {QUEUE: 8})
    assert between({QUEUE: 5}, {QUEUE: 20}, {QUEUE: 8}, fail=False) == [OffsetRange(QUEUE, 8, 20)]
    assert between({QUEUE: 5}, {QUEUE: 20}, {QUEUE: 30}, fail=False) == [OffsetRange(QUEUE, 20, 20)]


def test_a_topic_that_was_deleted_and_made_again():
    with pytest.raises(DataLossError, match="ends at offset 3, so its topic was deleted and created again"):
        between({QUEUE: 50}, {QUEUE: 3}, {QUEUE: 0})
    assert between({QUEUE: 50}, {QUEUE: 3}, {QUEUE: 0}, fail=False) == [OffsetRange(QUEUE, 0, 3)]
