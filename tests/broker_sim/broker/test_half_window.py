"""The window of half messages, and the messages of the op topic."""

from __future__ import annotations

import pytest

from rocketpy.wire.properties import decode_properties
from rocketpy_broker_sim.broker.transactions import window as window_module
from rocketpy_broker_sim.broker.transactions.half import check_times, first_offset, immunity_ms, is_copy, is_half
from rocketpy_broker_sim.broker.transactions.ops import OpProgress, PendingOps, offsets_of, op_message
from rocketpy_broker_sim.broker.transactions.window import HalfWindow, Mark

KEY = ("p", "U1")


def started(base: int) -> HalfWindow:
    window = HalfWindow()
    window.start(base)
    return window


# --- the window ------------------------------------------------------------------------------------------


def test_what_is_not_known_is_open_and_what_is_passed_is_gone() -> None:
    window = started(10)
    window.mark(12, Mark.COMMITTED)
    assert [window.state(offset) for offset in (9, 10, 11, 12, 13, 10**9)] == [
        Mark.GONE,
        Mark.OPEN,
        Mark.OPEN,
        Mark.COMMITTED,
        Mark.OPEN,
        Mark.OPEN,
    ]
    assert [window.next_open(offset) for offset in (0, 10, 11, 12, 13, 10**9)] == [10, 10, 11, 13, 13, 10**9]


def test_the_window_advances_and_forgets() -> None:
    window = started(0)
    for offset in range(100):
        window.mark(offset, Mark.ROLLED_BACK)
    window.mark(150, Mark.COMMITTED)
    assert window.next_open(0) == 100
    window.advance(120)
    assert (window.base, len(window)) == (120, 31)
    assert (window.state(150), window.state(119)) == (Mark.COMMITTED, Mark.GONE)
    window.advance(50)
    window.mark(3, Mark.COMMITTED)  # it has been passed: nothing is noted
    assert (window.base, len(window)) == (120, 31)


def test_an_older_copy_stands_for_the_last_one() -> None:
    window = started(0)
    window.mark(0, Mark.MOVED)
    assert window.note_copy(KEY, 5) is None
    window.mark(5, Mark.MOVED)
    assert window.note_copy(KEY, 9) == 5
    window.advance(3)
    assert [window.live(KEY, offset) for offset in (0, 5, 9)] == [9, 9, 9]
    assert window.live(("q", "U1"), 0) is None
    assert window.forget_copy(KEY, 5) is None
    assert window.forget_copy(KEY, 9) == 9
    window.mark(9, Mark.COMMITTED)
    assert [window.live(KEY, offset) for offset in (0, 5, 9)] == [None] * 3


def test_the_copies_that_are_known_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_module, "MOST_SUCCESSORS", 2)
    window = started(0)
    for number in range(3):
        window.note_copy(("p", f"U{number}"), 10 + number)
    window.note_copy(("p", "U0"), 20)
    assert [window.live(("p", f"U{number}"), -1) for number in range(3)] == [20, 11, None]


@pytest.mark.parametrize(("length", "known"), [(511, 30), (512, None)])
def test_copies_with_a_long_key_are_not_known(length: int, known: int | None) -> None:
    window, key = started(0), ("p", "x" * length)
    window.note_copy(key, 30)
    assert window.live(key, -1) == known


# --- the messages of the ends ----------------------------------------------------------------------------


def test_TX5_ends_are_written_as_apache_writes_them() -> None:
    message = op_message([12, 13, 7], 99, bytes(8))
    assert message.body == b"12,13,7,"
    assert (message.topic, message.queue_id) == ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0)
    assert decode_properties(str(message.properties)) == {"TAGS": "d", "WAIT": "true"}
    assert offsets_of("d", message.body) == [12, 13, 7]
    assert offsets_of("d", b"4") == [4]  # a release 4.x
    assert offsets_of("d", b"4,x,-1,,5," + b"9" * 20 + b"," + b"9" * 19) == [4, 5, int("9" * 19)]
    assert offsets_of(None, b"4,") == []


def test_TX5_a_message_of_ends_has_a_largest_size() -> None:
    pending = PendingOps()
    for offset in range(100):
        pending.add(offset)
    assert pending.size == 10 * 2 + 90 * 3
    taken = pending.take(20)
    assert taken == list(range(10))
    pending.give_back(taken)
    assert (pending.size, len(pending)) == (290, 100)
    assert pending.take(10**6) == list(range(100))
    assert (pending.size, pending.take(5)) == (0, [])


def test_TX5_what_has_been_passed_is_not_read_again() -> None:
    progress = OpProgress()
    progress.start(5)
    progress.note(5, [1, 2], base=3)  # of what was passed before
    progress.note(6, [9, 4], base=3)
    progress.note(7, [5], base=3)
    progress.note(8, [], base=3)
    assert [progress.done(base) for base in (3, 9, 10, 11)] == [6, 6, 9, 9]
    assert progress.next == 9


# --- what properties say ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "topic", "times", "half"),
    [
        ({"TRAN_MSG": "true"}, "T", 0, True),
        ({"TRAN_MSG": "TRUE"}, "T", 0, True),
        ({"TRAN_MSG": "yes"}, "T", 0, False),
        ({}, "T", 0, False),
        ({"TRAN_MSG": "true", "DELAY": "3"}, "T", 0, True),
        ({"TRAN_MSG": "true", "DELAY": "3"}, "%RETRY%g", 1, False),
        ({"TRAN_MSG": "true", "DELAY": "-1"}, "%DLQ%g", 17, False),
        ({"TRAN_MSG": "true", "DELAY": "x"}, "T", 1, True),
    ],
)
def test_which_messages_are_half_ones(properties: dict[str, str], topic: str, times: int, half: bool) -> None:
    assert is_half(properties, topic, times) is half


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [(None, None), ("", None), ("60", 60_000), ("1", 6000), ("-1", 6000), ("x", 6000), ("9" * 30, 6000), ("٣", 6000)],
)
def test_the_immunity_that_a_message_asks_for(text: str | None, milliseconds: int | None) -> None:
    properties = {} if text is None else {"CHECK_IMMUNITY_TIME_IN_SECONDS": text}
    assert immunity_ms(properties, 6000) == milliseconds


def test_copies_say_that_they_are_copies() -> None:
    assert not is_copy({"TRAN_MSG": "true"})
    assert is_copy({"TRANSACTION_CHECK_TIMES": "1"})
    assert is_copy({"TRAN_PREPARED_QUEUE_OFFSET": "7"})
    assert check_times({"TRANSACTION_CHECK_TIMES": "x"}) == 0
    assert [check_times({"TRANSACTION_CHECK_TIMES": "9" * digits}) for digits in (18, 19)] == [int("9" * 18), 0]
    assert check_times({"TRANSACTION_CHECK_TIMES": "3"}) == 3
    assert first_offset({"TRAN_PREPARED_QUEUE_OFFSET": "-1"}) is None
    assert first_offset({"TRAN_PREPARED_QUEUE_OFFSET": "7"}) == 7
