"""Choosing a queue: in turn, by hash as Java does, at random, by a function of the user's."""

from __future__ import annotations

import gc
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trio

from rocketpy.client.sends.selection import RoundRobin, by_hash, by_random, select_by, select_queue, sharding_queue
from rocketpy.errors import ConfigError
from rocketpy.message import Message, MessageQueue
from rocketpy.seams import set_random_seed

QUEUES = [MessageQueue("T", name, number) for name in ("broker-a", "broker-b") for number in range(4)]
MESSAGE = Message("T", b"x")
VECTORS = Path(__file__).parent.parent / "golden" / "vectors_java.json"


def test_queues_come_in_turn() -> None:
    counter = itertools.count(5)
    chosen = [select_queue(QUEUES, counter) for _ in range(16)]
    assert chosen == [QUEUES[number % 8] for number in range(5, 21)]


def test_topics_begin_at_random_places_and_count_apart() -> None:
    set_random_seed(7)
    starts = {next(RoundRobin().counter("T")) % 8 for _ in range(64)}
    set_random_seed(None)
    assert starts == set(range(8))
    turns = RoundRobin()
    first = next(turns.counter("T"))
    next(turns.counter("U"))
    assert next(turns.counter("T")) == first + 1


def test_S14_a_retry_picks_another_broker() -> None:
    counter = itertools.count()
    assert {select_queue(QUEUES, counter, avoid="broker-a").broker_name for _ in range(20)} == {"broker-b"}
    shared = Counter(select_queue(QUEUES, counter, avoid="broker-a").queue_id for _ in range(20))
    assert set(shared.values()) == {5}, "the other broker's queues share evenly"


def test_S14_a_single_broker_is_used_again() -> None:
    assert select_queue(QUEUES[:4], itertools.count(), avoid="broker-a").broker_name == "broker-a"


def test_S14_no_queue_at_all_is_an_error() -> None:
    for choose in (
        lambda: select_queue([], itertools.count()),
        lambda: sharding_queue([], "k"),
        lambda: by_hash([], MESSAGE, "k"),
        lambda: by_random([], MESSAGE),
    ):
        with pytest.raises(ConfigError, match="no queue"):
            choose()


def test_S14_random_reaches_every_queue_and_a_single_one_always() -> None:
    assert {by_random(QUEUES, MESSAGE) for _ in range(400)} == set(QUEUES)
    assert {by_random(QUEUES[:1], MESSAGE) for _ in range(10)} == {QUEUES[0]}


@pytest.mark.parametrize(
    ("arg", "java_hash"),
    [
        ("", 0),
        ("42", 1662),
        ("polygenelubricants", -(2**31)),
        (7, 7),
        (-7, -7),
        (2**31 - 1, 2**31 - 1),
        (2**32 + 5, 4),
        (-(2**40), -256),
        (True, 1231),
        (False, 1237),
    ],
)
def test_S14_hash_is_javas(arg: Any, java_hash: int) -> None:
    # Java takes the absolute value of the remainder, which is the remainder of the absolute value.
    assert by_hash(QUEUES, MESSAGE, arg) == QUEUES[abs(java_hash) % 8]


def test_S14_sharding_keys_end_where_java_puts_them() -> None:
    cases = json.loads(VECTORS.read_text("utf-8"))["cases"]
    hashes = [(case["input"], case["output"]) for case in cases if case["case"] == "string_hash"]
    assert len(hashes) == 14
    for text, number in hashes:
        for size in (1, 3, 7, 8):
            assert sharding_queue(QUEUES[:size], text) == QUEUES[abs(number) % size]


@pytest.mark.parametrize("arg", [None, 1.5, b"x", 2**63, object()])
def test_S14_hash_of_what_has_none_in_java_is_refused(arg: Any) -> None:
    with pytest.raises(ConfigError, match="selector of your own"):
        by_hash(QUEUES, MESSAGE, arg)


def test_S14_a_function_chooses_and_is_checked() -> None:
    assert select_by(lambda queues, message, arg: queues[arg], QUEUES, MESSAGE, 3) == QUEUES[3]
    with pytest.raises(ConfigError, match="not one of the 8 queues"):
        select_by(lambda queues, message, arg: MessageQueue("T", "elsewhere", 0), QUEUES, MESSAGE, None)
    with pytest.raises(ConfigError, match="chose None"):
        select_by(lambda queues, message, arg: None, QUEUES, MESSAGE, None)
    with pytest.raises(ZeroDivisionError):
        select_by(lambda queues, message, arg: queues[1 // arg], QUEUES, MESSAGE, 0)


@pytest.mark.filterwarnings("error")
def test_a_selector_that_is_async_is_refused() -> None:
    async def choose(queues: Any, message: Message, arg: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return queues[0]

    with pytest.raises(ConfigError, match="the selector is async: give a plain function"):
        select_by(choose, QUEUES, Message("T", b"x"), None)  # type: ignore[arg-type]
    gc.collect()  # a coroutine that nobody has awaited would be warned of
