"""The memory of what was consumed: its bound, and what it forgets."""

from __future__ import annotations

import pytest

from rocketpy.consumer.consumed import MOST_LEFT, Consumed
from rocketpy.message import MessageExt, MessageQueue
from tests.consumer.helpers import QUEUE, stored


def remembering(messages: list[MessageExt], size: int = 100) -> Consumed:
    consumed = Consumed("unique_id", size)
    for message in messages:
        consumed.add([message], consumed.stay(message))
    return consumed


def test_the_memory_of_copies_has_a_bound() -> None:
    messages = [stored(offset) for offset in range(5)]
    # The first one is the newest again when the last two come.
    consumed = remembering([*messages[:3], messages[0], *messages[3:]], size=3)
    assert [message in consumed for message in messages] == [True, False, False, True, True]


def test_what_is_rolled_back_is_forgotten_and_a_copy_of_what_was_not_is_known() -> None:
    first, copy, other = stored(0), stored(5, properties={"UNIQ_KEY": "U000000"}), stored(6)
    consumed = remembering([first, other])
    consumed.forget([copy, other])
    assert first in consumed
    assert copy in consumed
    assert other not in consumed
    consumed.forget([first])
    assert first not in consumed


def test_a_queue_is_forgotten_with_all_that_was_retried() -> None:
    ours, retried = stored(0), stored(1, queue_id=3, properties={"RETRY_TOPIC": "Orders"})
    elsewhere = stored(2, queue_id=1)
    consumed = remembering([ours, retried, elsewhere])
    consumed.forget_queue(QUEUE)
    assert [message in consumed for message in (ours, retried, elsewhere)] == [False, False, True]
    assert consumed.others([ours, retried, elsewhere]) == [0, 1]
    consumed.add([ours], consumed.stay(ours))
    assert ours in consumed


def test_what_was_begun_before_its_queue_was_forgotten_is_not_remembered() -> None:
    message = stored(0)
    consumed = remembering([])
    begun = consumed.stay(message)
    consumed.forget_queue(QUEUE)
    consumed.add([message], begun)
    assert message not in consumed


@pytest.mark.parametrize(("left", "taken", "known"), [(5, 5, True), (5, 7, True), (5, 4, False), (None, 0, True)])
def test_a_queue_that_comes_back_from_further_behind_is_forgotten(left: int | None, taken: int, known: bool) -> None:
    message = stored(4)
    consumed = remembering([message])
    consumed.left(QUEUE, left)
    consumed.left(MessageQueue("Orders", "broker-a", 1), 100)
    consumed.taken(QUEUE, taken)
    assert (message in consumed) is known
    consumed.add([message], consumed.stay(message))
    consumed.taken(QUEUE, 0)  # known only once: what it was left at may have been undone by who had it meanwhile
    assert message in consumed


def test_a_consumer_that_is_opened_again_knows_nothing() -> None:
    message = stored(4)
    consumed = remembering([message])
    consumed.left(QUEUE, 5)
    consumed.clear()
    assert message not in consumed
    consumed.add([message], consumed.stay(message))
    consumed.taken(QUEUE, 0)
    assert message in consumed


@pytest.mark.slow
def test_threat_L8_queues_that_were_given_up_have_a_bound() -> None:
    consumed = Consumed("unique_id", 2 * MOST_LEFT)
    messages = [stored(queue_id, queue_id=queue_id) for queue_id in range(MOST_LEFT + 1)]
    for message in messages:
        consumed.add([message], consumed.stay(message))
        consumed.left(message.queue, message.queue_offset + 1)
    assert [message in consumed for message in messages] == [False] + [True] * MOST_LEFT  # too much rather than lost
    assert (len(consumed._left), len(consumed._stays)) == (MOST_LEFT, MOST_LEFT)
    for message in messages:
        consumed.taken(message.queue, message.queue_offset + 1)
    assert not consumed._left


@pytest.mark.parametrize("by", ["unique_id", "key"])
def test_threat_L8_ids_that_were_seen_have_a_bound_and_go_with_newer_ones_and_with_their_queue(by: str) -> None:
    consumed = Consumed(by, 100)
    messages = [stored(offset, queue_id=offset % 4, properties={"KEYS": f"k{offset}"}) for offset in range(1000)]
    for message in messages:
        consumed.add([message], consumed.stay(message))
    assert [message in consumed for message in messages] == [False] * 900 + [True] * 100
    consumed.forget_queue(messages[-1].queue)
    assert sum(message in consumed for message in messages) == 75
    for message in messages[-1::-4]:  # what is forgotten makes room for no more than was remembered
        consumed.add([message], consumed.stay(message))
    assert sum(message in consumed for message in messages) == 100
    consumed.clear()
    assert not any(message in consumed for message in messages)
