"""Names of topics and groups: rules, system names, derived names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import ConfigError
from rocketpy.wire.names import (
    NOT_ALLOWED_SEND,
    SYSTEM_TOPICS,
    check_group,
    check_topic,
    dlq_topic,
    group_of_retry_topic,
    is_pop_retry_topic_v2,
    is_retry_topic,
    is_system_group,
    is_system_topic,
    is_valid_group,
    is_valid_stored_topic,
    is_valid_topic,
    pop_retry_topic_v1,
    pop_retry_topic_v2,
    retry_topic,
)
from tests.strategies import names
from tests.tables import Table
from tests.vectors import java_cases

HOSTILE = [
    "", " ", "\t", "../up", "..", ".", "a.b", "a/b", "a\\b", "a\0", "a\n", "a b", "a+b", "a@b", "a:b", "a*",
    "тема", "主题", "ａ", "topic\u200b", "a\u0301", "ⅷ", "~", "$HOME", "con.txt", "a;b", "a'b", 'a"b', "<a>",
]  # fmt: skip
"""No entry may accept one of these, for names become folders, keys of tables and parts of other names."""


def test_P18_a_broker_takes_the_topics_that_java_takes() -> None:
    with Table() as table:
        for name, valid in java_cases("validate_topic"):
            with table.row(f"{name!a:.40}"):
                assert is_valid_topic(name) is valid


def test_P18_system_topics() -> None:
    with Table() as table:
        for name, system in java_cases("is_system_topic"):
            with table.row(f"{name!a:.40}"):
                assert is_system_topic(name) is system


def test_P18_topics_that_nobody_may_send_to() -> None:
    with Table() as table:
        for name, refused in java_cases("not_allowed_send"):
            with table.row(f"{name!a:.40}"):
                assert (name in NOT_ALLOWED_SEND) is refused


def test_P18_a_broker_adds_system_topics_of_its_own() -> None:
    own = frozenset({"broker-a", "DefaultCluster"})
    assert is_system_topic("broker-a", own)
    assert not is_system_topic("broker-b", own)
    assert NOT_ALLOWED_SEND < SYSTEM_TOPICS


@pytest.mark.parametrize(("length", "good"), [(1, True), (126, True), (127, True), (128, False), (255, False)])
def test_P18_a_topic_has_at_most_127_characters(length: int, good: bool) -> None:
    name = "T" * length
    assert is_valid_topic(name) is good
    if good:
        check_topic(name)
    else:
        with pytest.raises(ConfigError, match=f"{length} characters, 127 are allowed"):
            check_topic(name)


@pytest.mark.parametrize(("length", "good"), [(1, True), (120, True), (121, False), (255, False)])
def test_P18_a_group_has_at_most_120_characters(length: int, good: bool) -> None:
    name = "G" * length
    if good:
        check_group(name)
    else:
        with pytest.raises(ConfigError, match=r"the group .* 120 are allowed"):
            check_group(name)


@pytest.mark.parametrize(("length", "good"), [(128, True), (255, True), (256, False)])
def test_P18_a_broker_holds_retry_and_dlq_topics_of_255_characters(length: int, good: bool) -> None:
    for prefix in ("%RETRY%", "%DLQ%"):
        assert is_valid_stored_topic(prefix.ljust(length, "g")) is good
    assert is_valid_group("g" * length) is good
    assert not is_valid_stored_topic("T" * length)


@pytest.mark.parametrize("name", ["", " ", "\t\n"])
def test_P18_blank_names_are_told_apart(name: str) -> None:
    with pytest.raises(ConfigError, match="the topic is blank"):
        check_topic(name)
    with pytest.raises(ConfigError, match="the group is blank"):
        check_group(name)


def test_P18_the_error_says_what_the_name_was_for() -> None:
    with pytest.raises(ConfigError, match="the trace topic 'a b' has characters"):
        check_topic("a b", what="trace topic")


@pytest.mark.parametrize("name", ["TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS", "CID_ONSAPI_PULL"])
def test_system_groups(name: str) -> None:
    assert is_system_group(name)
    assert not is_system_group(f"my_{name}")


def test_threat_A1_one_validator_refuses_hostile_names() -> None:
    with Table() as table:
        for name in HOSTILE:
            with table.row(repr(name)):
                assert not is_valid_topic(name)
                assert not is_valid_stored_topic(name)
                assert not is_valid_stored_topic(f"%RETRY%{name}+x/y")
                assert not is_valid_group(name)
                for check in (check_topic, check_group):
                    with pytest.raises(ConfigError):
                        check(name)


@given(st.text(max_size=40) | names(300))
def test_threat_A1_accepted_names_are_plain_ascii(name: str) -> None:
    plain = re.compile(r"[%|A-Za-z0-9_-]+")
    for accepted in (is_valid_topic(name), is_valid_group(name)):
        if accepted:
            assert plain.fullmatch(name)
    if is_valid_stored_topic(name):
        assert plain.fullmatch(name.replace("+", ""))
        assert name.count("+") <= 1
        assert len(name) <= 255


@pytest.mark.parametrize("name", [None, 5, b"topic"])
def test_a_name_that_is_no_text_is_refused(name: object) -> None:
    with pytest.raises(ConfigError):
        check_topic(name)  # type: ignore[arg-type]


def test_P20_pop_retry_topics_of_both_forms() -> None:
    with Table() as table:
        for given_names, expected in java_cases("pop_retry_topic"):
            with table.row(given_names):
                topic, group = given_names["topic"], given_names["group"]
                first, second = pop_retry_topic_v1(topic, group), pop_retry_topic_v2(topic, group)
                assert (first, second) == (expected["v1"], expected["v2"])


@given(names(100), names(100))
def test_P20_derived_names_can_be_taken_apart(group: str, topic: str) -> None:
    assert group_of_retry_topic(retry_topic(group)) == group
    assert is_retry_topic(retry_topic(group))
    second = pop_retry_topic_v2(topic, group)
    assert is_pop_retry_topic_v2(second)
    assert not is_pop_retry_topic_v2(retry_topic(group))
    assert group_of_retry_topic(second) == group
    assert is_valid_stored_topic(second)
    assert not is_valid_topic(second)


def test_P20_other_topics_stay_as_they_are() -> None:
    assert dlq_topic("g") == "%DLQ%g"
    assert not is_retry_topic("%DLQ%g")
    assert group_of_retry_topic("T") is None
    assert group_of_retry_topic("%DLQ%g") is None
