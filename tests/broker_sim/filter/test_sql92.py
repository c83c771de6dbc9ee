"""SQL92 as Apache's filter module understands it: 166 expressions that it compiled, and what can go wrong."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpy.wire.properties import encode_properties
from rocketpy_broker_sim.filter.errors import EvaluationError, FilterExpressionError
from rocketpy_broker_sim.filter.expression import MOST_CHARACTERS, Compiler, Expression
from tests.pace import slowness
from tests.steps import cost, longest
from tests.vectors import java_cases, sql92_property_sets

COMPILER = Compiler()
SETS = sql92_property_sets()
OF_JAVA = {"true": True, "false": False, None: None}


def evaluated(text: str, properties: dict[str, str]) -> bool | str | None:
    """What an expression says of properties; "error" when it cannot."""
    try:
        return COMPILER.compile(text).evaluate(properties)
    except EvaluationError:
        return "error"


def matches(text: str, **properties: str) -> bool:
    """Whether a message with these properties is wanted, as it is stored."""
    return COMPILER.compile(text).matches(encode_properties(properties).encode())


# --- as Java ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("case", "output"), java_cases("sql92"), ids=lambda part: str(part)[:60])
def test_F3_every_expression_says_what_it_says_in_java(case: dict[str, str], output: Any) -> None:
    text = case["expression"]
    if isinstance(output, dict):
        with pytest.raises(FilterExpressionError):
            COMPILER.compile(text)
        return
    for properties, wanted in zip(SETS, output, strict=True):
        verdict = "error" if "error" in wanted else OF_JAVA[wanted["value"]]
        assert evaluated(text, properties) is verdict or evaluated(text, properties) == verdict == "error", properties
        stored = {name: value for name, value in properties.items() if value}  # empty ones are not stored
        if stored == properties:
            assert matches(text, **properties) is wanted["match"]


BIG = "(TAGS is not null and TAGS in ('TagA', 'TagB')) or (test is not null and test between 7 and 9)"


@pytest.mark.parametrize(
    ("properties", "wanted"),
    [
        ({"TAGS": "TagA"}, True),
        ({"TAGS": "TagC"}, False),
        ({"TAGS": "TagC", "test": "7"}, True),
        ({"test": "9"}, True),
        ({"test": "10"}, False),
        ({"test": "x"}, False),
        ({}, False),
    ],
)
def test_F3_an_expression_of_many_parts(properties: dict[str, str], wanted: bool) -> None:
    assert matches(BIG, **properties) is wanted


@pytest.mark.parametrize(
    ("text", "value", "wanted"),
    [
        ("a > 5", "+6", True),
        ("a > 5", " 6", "error"),
        ("a > 5", "6_0", "error"),
        ("a > 5", "٦", True),  # Java's Integer.parseInt takes digits of all scripts
        ("a > 5", "2147483648", "error"),  # the literal is of 32 bits, and so the property has to be
        ("a > 5L", "2147483648", "error"),
        ("a > 2147483648", "4294967296", True),
        ("a > 5", "0" * 120 + "6", True),
        ("a > 5", "0" * 128 + "6", "error"),  # ours: nobody writes such numbers
        ("a > 5.5", "0" * 128 + "6", "error"),
        ("a > 5", "9" * 5000, "error"),
        ("a > 5.5", "6", True),
        ("a > 5.5", " 6d ", True),
        ("a > 5.5", "0x1p4", True),
        ("a > 5.5", "0x1p99999", True),
        ("a > 5.5", "NaN", True),  # in Java's order the largest of all
        ("a > 5.5", "-Infinity", False),
        ("a > 5.5", "1e999", True),
        ("a > 5.5", "six", "error"),
        ("a = -5", "-5", True),
        ("a < -5.5", "-6", True),
        ("a = a", "x", True),
        ("a <> -1", "-2", True),
        ("-(a = 5) IS NULL", "5", True),
        ("-(a = 5) IS NULL", "x", "error"),
        ("a BETWEEN -1 AND -5", "-3", False),  # what has a minus is no constant, so it is not checked
        ("a CONTAINS 'x' = TRUE", "axe", True),
        ("a contains 'x' or A STARTSWITH 'y'", "axe", True),
        ("(a = 5) = (a = 6)", "5", False),
        ("(a = 5) > 4", "5", None),
    ],
)
def test_F3_numbers_are_read_as_java_reads_them(text: str, value: str, wanted: bool | str | None) -> None:
    if wanted is None:
        with pytest.raises(FilterExpressionError):
            COMPILER.compile(text)
    else:
        assert evaluated(text, {"a": value}) == wanted


@pytest.mark.parametrize("size", [10, 2_499, 2_500, 29_999, 30_000, 32_000])
def test_F3_contains_finds_what_python_finds(size: int) -> None:
    contains = COMPILER.compile("a CONTAINS 'abc' OR a CONTAINS 'x\0'").evaluate
    for text in ("-" * size, "-" * (size - 3) + "abc", "abc" + "-" * (size - 3), "ab" + "-" * (size - 3) + "c"):
        assert contains({"a": text}) is ("abc" in text)
    assert contains({"a": "-" * (size - 1) + "x"}) is False
    assert contains({"a": "-" * (size - 2) + "x\0"}) is True


@pytest.mark.parametrize("size", [2_000, 5_000, 29_000])
def test_threat_A10_a_crafted_text_is_searched_in_linear_time(size: int) -> None:
    wanted = "x" * (size // 2)
    crafted = (wanted[1:] + "-" + wanted[1:])[:size].ljust(size, "-")
    evaluate = COMPILER.compile(f"a CONTAINS '{wanted}'").evaluate
    best = 9.9
    for _ in range(20):
        began = time.thread_time()
        assert evaluate({"a": crafted}) is False
        best = min(best, time.thread_time() - began)
    assert best / slowness() < 0.00006


@pytest.mark.parametrize("crafted", [b"a\x01\x02" * 10_000, b"a\x01\x02b\x011\x02" * 4_000])
def test_threat_A10_crafted_properties_are_looked_through_in_linear_time(crafted: bytes) -> None:
    matches_ = COMPILER.compile("a = 1").matches
    assert matches_(b"a\x011\x02" + crafted)
    best = 9.9
    for _ in range(20):
        began = time.thread_time()
        assert not matches_(crafted)
        best = min(best, time.thread_time() - began)
    assert best / slowness() < 0.0005


def test_F3_two_properties_are_compared_as_numbers() -> None:
    for one, other, wanted in (("1", "2", True), ("-0.0", "0.0", True), ("0", "0.0", False), ("NaN", "NaN", False)):
        assert evaluated("a < b", {"a": one, "b": other}) is wanted, (one, other)
    assert evaluated("a < b", {"a": "x", "b": "1"}) == "error"


def test_F3_properties_are_looked_up_as_they_are_stored() -> None:
    expression = COMPILER.compile("a = '2' AND b IS NULL")
    for stored, wanted in (
        (b"a\x012\x02", True),
        (b"a\x012", True),  # the last separator may be missing
        (b"a\x011\x02a\x012\x02", True),  # the last one wins
        (b"a\x012\x02a\x01\x02", True),  # unless it is empty
        (b"xa\x012\x02", False),
        (b"a\x012\x02b\x01\x02", True),
        (b"a\x012\x02b\x010\x02", False),
        (b"k\x01a\x012\x02", False),
        (b"", False),
        (b"a\x01\xff\x02", False),
    ):
        assert expression.matches(stored) is wanted, stored


# --- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "position", "said"),
    [
        ("", 1, "ends too early, expected .* a property"),
        ("a = ", 5, "ends too early"),
        ("a = 5 AND OR b = 6", 11, "'OR' does not fit, expected"),
        ("(a = 5", 7, r"expected \) or OR"),
        ("a # 5", 3, "'#' means nothing here"),
        ("a = 'x", 5, "a string begins here and does not end"),
        ("a IN (5)", 7, "expected a text in single quotes"),
        ("a > '5'", 5, "without quotes"),
        ("'b' IN ('b')", 1, "a property on its left"),
        ("a = NULL", 5, "IS NULL"),
        ("a BETWEEN 9 AND 1", 11, "lower value first"),
        ("5", 1, "a condition is expected"),
        ("a > 9223372036854775808", 5, "larger than 9223372036854775807"),
        ("a > 1e999", 5, "too large"),
        ("a > 0.0", 5, "write 0"),
        ("a NOT 5", 7, "expected .*BETWEEN"),
        ("NOT " * 65 + "a", 261, "levels of nesting"),
        ("a = 1 OR " * 200 + "a = 1", 1153, "more than 256 operators"),
        ("a" * (MOST_CHARACTERS + 1), MOST_CHARACTERS + 1, "16384 are allowed"),
    ],
)
def test_F4_what_is_wrong_is_told_with_its_place(text: str, position: int, said: str) -> None:
    for _ in range(2):  # the second time it is remembered
        with pytest.raises(FilterExpressionError, match=said) as caught:
            COMPILER.compile(text)
        assert caught.value.position == position
        assert str(caught.value).startswith(f"at character {position}: ")


DEEP_AND_LONG = [
    ("(" * 64 + "a = 1" + ")" * 64, True),
    ("(" * 16_000 + "a = 1", "64 levels of parentheses"),
    (" AND ".join(["(a = 1)"] * 100), True),
    ("a = 1" + " AND a = 1" * 126 + " AND b = 1", False),
    ("a = 1 OR " * 1000 + "a", "256 operators"),
    ("a = 1" + " = TRUE" * 100, "64 levels of nesting"),
    ("NOT " * 4000 + "a", "256 operators"),
    ("-" * 300 + "1 IS NULL", "256 operators"),
    # Too many are refused before the last of them, because they are all reduced after that one.
    ("a > " + "-" * 4000 + "1", "at character 261: .* 256 operators"),
    ("a > " + "NOT " * 4000 + "1", "at character 1029: .* 256 operators"),
    ("+" * 16_000 + "a = 1", True),
    ("a IN (" + ",".join(f"'{number}'" for number in range(2000)) + ")", True),
    ("a" * 16_000 + " = 1", False),
    ("a =" + " " * 16_000 + "1", True),
    ("a = 1 -- " + "x" * 16_000, True),
    ("a > " + "9" * 16_000, "larger than"),
    ("a > 1e" + "9" * 16_000, "too large"),
    ("a > 0." + "1" * 16_000, True),
    ("a > 1 / 0", "means nothing"),
    ("long CONTAINS '" + "x" * 8000 + "y'", False),
    (" OR ".join(f"long CONTAINS '{'x' * 100}{number}'" for number in range(100)), False),
    ("long STARTSWITH '" + "x" * 16_000 + "'", True),
    ("long ENDSWITH '" + "y" * 16_000 + "'", False),
    ("long > 5", False),
    ("many > 5", False),
    ("big > 5", False),
    ("'" * 16_001, "does not end"),
    ("/*" * 8000, "means nothing"),
    ("a = '" + "''" * 8000, "does not end"),
]
STORED = encode_properties({"a": "1", "long": "x" * 30_000, "many": "9" * 30_000, "big": "1e999"}).encode()
TRIES = 3
AT_ONCE, IN_ALL, A_MESSAGE = 0.03, 0.1, 0.005
"""Seconds of processor time on an ordinary machine: for one step of compiling, for all steps, and for one message."""


@pytest.mark.slow
@pytest.mark.parametrize(("text", "verdict"), DEEP_AND_LONG, ids=lambda part: str(part)[:20])
def test_threat_A10_deep_and_long_expressions_are_refused_or_cheap(text: str, verdict: bool | str) -> None:
    def compile_it() -> Generator[None, None, Expression | FilterExpressionError]:
        compiler = Compiler()
        compiler.load()
        yield
        try:
            return (yield from compiler.compile_steps(text))
        except FilterExpressionError as exc:
            return exc

    at_once, made = longest(compile_it)
    assert at_once <= AT_ONCE
    ready = iter([started(compile_it()) for _ in range(TRIES)])
    assert cost(lambda: list(next(ready)), tries=TRIES) <= IN_ALL
    if isinstance(verdict, str):
        with pytest.raises(FilterExpressionError, match=verdict):
            raise made
    else:
        assert made.matches(STORED) is verdict
        assert cost(lambda: made.matches(STORED), tries=4 * TRIES) <= A_MESSAGE


def started(steps: Generator[None, None, Any]) -> Generator[None, None, Any]:
    next(steps)
    return steps


def test_expressions_are_compiled_once_and_the_oldest_are_forgotten() -> None:
    compiler = Compiler()
    assert not compiler.is_loaded
    first = compiler.compile("a = 1")
    assert compiler.is_loaded
    assert compiler.compile("a = 1") is first is compiler.cached("a = 1")
    assert compiler.cached("a = 2") is None
    for number in range(1000):
        compiler.compile(f"a = {number + 2}")
    assert compiler.cached("a = 1") is None


def test_expressions_are_compiled_in_steps() -> None:
    steps = list(Compiler().compile_steps(" OR ".join(f"a = {number}" for number in range(100))))
    assert len(steps) == 24  # 399 tokens


# --- any input ----------------------------------------------------------------------------------------

KEYWORDS = ["AND", "OR", "NOT", "IN", "IS", "BETWEEN", "CONTAINS", "STARTSWITH", "ENDSWITH", "TRUE", "NULL", "and"]
OTHERS = [
    "a",
    "b",
    "TAGS",
    "$c",
    "5",
    "5L",
    "5.5",
    ".5",
    "1e3",
    "'x'",
    "''",
    "'it''s'",
    "/*x*/",
    "--",
    "\n",
    "#",
    "é",
    "'",
]
SIGNS = ["(", ")", ",", "=", "<>", ">", ">=", "<", "<=", "+", "-"]
WORDS = st.sampled_from([*KEYWORDS, *OTHERS, *SIGNS])
TEXTS = st.one_of(st.lists(WORDS, max_size=30).map(" ".join), st.text(max_size=60))
PROPERTIES = st.dictionaries(st.sampled_from(["a", "b", "TAGS", "$c"]), st.text(max_size=12), max_size=4)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(text=TEXTS, properties=PROPERTIES, stored=st.binary(max_size=60))
def test_no_input_raises_anything_else(text: str, properties: dict[str, str], stored: bytes) -> None:
    expression, position = None, 1
    try:
        expression = COMPILER.compile(text)
    except FilterExpressionError as exc:
        position = exc.position
    assert 1 <= position <= len(text) + 1
    if expression is None:
        return
    assert expression.matches(stored) in (True, False)
    assert expression.matches(encode_properties(properties).encode("utf-8", "replace")) in (True, False)
    with suppress(EvaluationError):
        assert expression.evaluate(properties) in (True, False, None)


@pytest.mark.slow
def test_lark_is_not_loaded_before_the_first_expression() -> None:
    modules = "rocketpy_broker_sim, rocketpy_broker_sim.broker.opening, rocketpy_broker_sim.filter.expression, sys"
    code = f"import {modules}; sys.exit('lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
