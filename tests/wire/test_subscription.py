"""What a tag expression means: how it is built, what matches, when two are the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import ConfigError
from rocketpy.seams import wall_clock
from rocketpy.wire.bodies import subscription
from rocketpy.wire.bodies.subscription import SubscriptionData
from rocketpy.wire.java_hash import string_hash
from tests.wire.golden import FOLDER

VECTORS: list[dict[str, Any]] = [
    case
    for case in json.loads((FOLDER.parent / "vectors_java.json").read_text("utf-8"))["cases"]
    if case["case"] == "subscription_tags"
]


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: repr(case["input"]))
def test_F1_expressions_are_read_as_java_reads_them(case: dict[str, Any]) -> None:
    found = subscription.build("T", case["input"]).to_json()
    assert {key: found[key] for key in case["output"]} == case["output"]


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_F1_separators_alone_are_refused(expression: str) -> None:
    with pytest.raises(ConfigError, match="no tag"):
        subscription.build("T", expression)


def test_F1_blanks_alone_match_nothing() -> None:
    found = subscription.build("T", "  ")
    assert (found.tags_set, found.code_set) == (set(), set())


def test_F1_case_and_inner_blanks_count() -> None:
    found = subscription.build("T", " TagA || tag b\t||\u2003x")
    assert found.tags_set == {"TagA", "tag b", "\u2003x"}
    assert not found.matches_tag("taga")
    assert found.matches_tag("tag b")


@pytest.mark.slow
def test_F1_a_very_long_expression() -> None:
    tags = [f"tag-{number}" * 50 for number in range(5000)]
    found = subscription.build("T", " || ".join(tags))
    assert found.tags_set == set(tags)
    assert found.code_set == {string_hash(tag) for tag in tags}


def test_F1_everything_matches_everything() -> None:
    for expression in ("*", "", None):
        found = subscription.build("T", expression)
        assert (found.sub_string, found.code_set) == ("*", set())
        assert found.matches_tag("x")
        assert found.matches_tag(None)


def test_F1_a_message_without_a_tag_matches_no_tag() -> None:
    found = subscription.build("T", "a||b")
    assert 0 not in found.code_set
    assert not found.matches_tag(None)


def test_F1_equal_hashes_pass_the_broker_and_not_the_client() -> None:
    assert string_hash("Aa") == string_hash("BB")
    found = subscription.build("T", "Aa")
    assert found.code_set == {string_hash("BB")}
    assert not found.matches_tag("BB")


def test_F1_codes_are_read_as_32_bits_with_sign() -> None:
    found = subscription.build("T", "polygenelubricants")
    assert found.code_set == {-(2**31)}


def test_F1_a_filter_class_takes_everything() -> None:
    found = SubscriptionData(topic="T", sub_string="x", tags_set={"x"}, class_filter_mode=True)
    assert found.matches_tag("y")


def test_F1_sql_keeps_its_expression_and_has_no_tags() -> None:
    found = subscription.build("T", "a > 5 AND b = 'x'", expression_type=subscription.SQL92)
    assert (found.sub_string, found.expression_type, found.tags_set) == ("a > 5 AND b = 'x'", "SQL92", set())
    assert not found.is_tag
    for expression in ("", None):
        with pytest.raises(ConfigError, match="expression"):
            subscription.build("T", expression, expression_type=subscription.SQL92)


@pytest.mark.parametrize("kind", ["TAG", "", None])
def test_F1_no_type_means_tags(kind: str | None) -> None:
    assert subscription.build("T", "a", expression_type=kind).tags_set == {"a"}
    assert SubscriptionData(topic="T", expression_type=kind).is_tag


def test_F1_same_only_when_all_is_the_same() -> None:
    with wall_clock(lambda: 1000):
        one, same = subscription.build("T", "a||b"), subscription.build("T", "a||b")
    assert one == same
    assert one.encode() == same.encode()
    with wall_clock(lambda: 1001):
        assert one != subscription.build("T", "a||b")
    with wall_clock(lambda: 1000):
        assert one != subscription.build("T", "b||a")
        assert one != subscription.build("U", "a||b")


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="|"), max_size=8), min_size=1))
def test_F1_every_tag_of_an_expression_matches(parts: list[str]) -> None:
    expression = "||".join(parts)
    if not expression.replace("||", ""):
        return
    found = subscription.build("T", expression)
    if expression == subscription.ALL:
        assert found.sub_string == "*"
        return
    assert SubscriptionData.decode(found.encode()) == found
    for part in parts:
        tag = part.strip("".join(map(chr, range(33))))
        assert not tag or (string_hash(tag) in found.code_set and found.matches_tag(tag))
