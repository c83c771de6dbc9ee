"""Errors cross processes and have copies: with all that they know, whatever their constructors ask for."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

from rocketpy import errors
from rocketpy.errors import (
    BrokerError,
    ConnectError,
    NameServerUnreachableError,
    RocketMQError,
    RowError,
    SendAttempt,
    SendError,
)

FACTS = {
    "topic": "Orders", "tried": ("a:1", "b:2"), "address": "a:1", "timeout": 1.5, "position": 7, "decoded": (1, 2),
    "path": "store/commitlog", "offset": 3, "doing": "a send", "remark": "no\nway", "code": 31337,
    "attempts": (SendAttempt("b", "a:1", ConnectError("away", address="a:1"), 0.5),), "message": "what was done",
    "reason": "the value is null", "row": 17, "partition": 3, "keys": ("AA-1", "AA-2"),
    "first": 3, "last": 9, "count": 5, "sent": 12,
}  # fmt: skip
KINDS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, RocketMQError)]


def made(kind: type[RocketMQError]) -> RocketMQError:
    if not inspect.isfunction(kind.__init__):
        return kind("what was done")
    wanted = inspect.signature(kind).parameters.values()
    positional = [FACTS[each.name] for each in wanted if each.kind is each.POSITIONAL_OR_KEYWORD]
    return kind(*positional, **{each.name: FACTS[each.name] for each in wanted if each.kind is each.KEYWORD_ONLY})


def facts(error: BaseException) -> dict[str, object]:
    return {name: repr(value) for name, value in vars(error).items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copy", "pickle"])
def test_an_error_is_copied_and_pickled_whole(kind: type[RocketMQError], again) -> None:
    error = made(kind)
    other = again(error)
    assert type(other) is kind
    assert other is not error
    assert (str(other), other.args, facts(other)) == (str(error), error.args, facts(error))


def test_there_are_errors_of_every_kind_of_constructor() -> None:
    assert {NameServerUnreachableError, BrokerError, SendError} <= set(KINDS)
    assert len(KINDS) > 30


def test_a_copy_gathers_notes_of_its_own() -> None:
    error = made(NameServerUnreachableError)
    error.add_note("of both")
    other = copy.copy(error)
    other.add_note("of the copy")
    assert (error.__notes__, other.__notes__) == (["of both"], ["of both", "of the copy"])


def test_the_error_of_a_row_says_which_row_it_is() -> None:
    error = RowError("the value is null", row=17, partition=3, keys=["AA-1"])
    assert str(error) == "row 17 of partition 3 (keys 'AA-1'): the value is null"
    assert (error.row, error.partition, error.keys, error.reason) == (17, 3, ("AA-1",), "the value is null")
    assert str(RowError("no", row=1, partition=0)) == "row 1 of partition 0: no"


def test_the_error_of_a_row_shows_few_keys_and_little_of_each() -> None:
    error = RowError("no", row=1, partition=0, keys=["a\nb", "x" * 1_000, "c", "d"])
    assert str(error) == f"row 1 of partition 0 (keys 'a\\nb', '{'x' * 80}', 'c', ...): no"
