"""Errors cross processes and have copies: with all that they know, whatever their constructors ask for."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path

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
    rounded,
)
from rocketpy.wire.codes import ResponseCode
from tests.rules import listed

FACTS = {
    "topic": "Orders", "tried": ("a:1", "b:2"), "address": "a:1", "timeout": 1.5, "position": 7, "decoded": (1, 2),
    "path": "store/commitlog", "offset": 3, "doing": "a send", "remark": "no\nway", "code": 31337,
    "attempts": (SendAttempt("b", "a:1", ConnectError("away", address="a:1"), 0.5),), "message": "what was done",
    "reason": "the value is null", "row": 17, "partition": 3, "keys": ("AA-1", "AA-2"),
    "expression": "a > 3", "first": 3, "last": 9, "count": 5, "sent": 12,
    "min_offset": 0, "max_offset": 2, "queue": ("Orders", "b", 1), "correlation_id": "c-1", "content_type": "a/b",
    "name": "broker-a", "known": ("broker-b",), "group": "billing", "message_id": "AC11", "result": (1, 2),
    "failures": {"broker-a": ConnectError("away", address="a:1")}, "done": ("broker-b",),
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


def differences(error: RocketMQError, again: Callable[[RocketMQError], RocketMQError]) -> Iterator[str]:
    """How the copy of an error is not the whole of it."""
    try:
        other = again(error)
    except Exception as failure:  # noqa: BLE001 - listed with the others
        yield f"{type(error).__name__} cannot be copied: {failure!r}"
        return
    if type(other) is not type(error) or other is error:
        yield f"{type(error).__name__} became {other!r}"
    ours, theirs = ((str(each), each.args, facts(each)) for each in (error, other))
    if ours != theirs:
        yield f"{type(error).__name__} knew {ours}, its copy {theirs}"


@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copy", "pickle"])
def test_an_error_of_every_kind_is_copied_and_pickled_whole(again) -> None:
    errors_made = [made(kind) for kind in KINDS]
    listed(
        (each for error in errors_made for each in differences(error, again)),
        "let RocketMQError.__reduce__ see all that the constructor is given",
    )


def test_errors_that_forget_are_found() -> None:
    class ForgetfulError(RocketMQError):
        def __init__(self, message: str, *, topic: str = "") -> None:
            super().__init__(message)
            self.topic = topic

    def become(other: RocketMQError) -> list[str]:
        return list(differences(error, lambda _: other))

    error = ForgetfulError("gone", topic="Orders")
    assert become(ForgetfulError("gone", topic="Orders")) == []
    assert [each.partition(" knew")[0] for each in become(ForgetfulError("gone"))] == ["ForgetfulError"]
    assert become(error) == ["ForgetfulError became ForgetfulError('gone')"]
    assert len(become(RocketMQError("gone"))) == 2
    assert list(differences(error, lambda _: error.missing)) == [  # type: ignore[attr-defined]
        "ForgetfulError cannot be copied: AttributeError(\"'ForgetfulError' object has no attribute 'missing'\")"
    ]


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


def test_the_seconds_of_a_timeout_are_rounded() -> None:
    given = (2.99996, 0.0012, 99.996, 299.996, 3000.0, 1e300, float("inf"))
    assert [rounded(each) for each in given] == ["3", "0.0012", "100", "300", "3000", "1e+300", "inf"]


PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "errors.md"
BY_HAND = PAGE.read_text("utf-8").partition("## The tree")[0]
ROW = re.compile(r"^\| `(?P<name>\w+)`[^|]* \| (?P<code>\d+)[^|]* \| [^|]+ \| (?P<again>yes|no) \|$", re.MULTILINE)


def left_out(page: str) -> Iterator[str]:
    """What the tables do not say, or say wrongly, of our errors."""
    yield from (f"{kind.__name__} is not named" for kind in KINDS if f"`{kind.__name__}`" not in page)
    rows = {row["name"]: (int(row["code"]), row["again"]) for row in ROW.finditer(page)}
    for kind in KINDS:
        if issubclass(kind, BrokerError) and kind is not BrokerError:
            code = kind.well_known_codes[0] if kind.well_known_codes else ResponseCode.SUBSCRIPTION_PARSE_FAILED
            if rows.get(kind.__name__) != (code, "yes" if kind.retriable else "no"):
                yield f"{kind.__name__} has no row with {int(code)} and whether it is retriable"


def test_the_page_names_every_error() -> None:
    listed(left_out(BY_HAND), "complete the tables of docs/reference/errors.md")


def test_an_error_that_the_page_leaves_out_is_found() -> None:
    assert list(left_out(BY_HAND.replace("`RowError`", "`RawError`"))) == ["RowError is not named"]
    assert list(left_out(BY_HAND.replace("| 215 |", "| 216 |"))) == [
        "FlowControlError has no row with 215 and whether it is retriable"
    ]
