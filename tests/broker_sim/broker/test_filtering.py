"""Tag expressions within bounds, and the test by hash."""

from __future__ import annotations

import pytest

from rocketpy.errors import ConfigError
from rocketpy.wire.bodies.subscription import SubscriptionData
from rocketpy.wire.java_hash import string_hash
from rocketpy_broker_sim.broker.filters.filtering import bounded_subscription, check_bounds, filter_of
from rocketpy_broker_sim.store.filtering import MessageFilter, distinct, joined
from rocketpy_broker_sim.store.put_result import Arrival


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_everything_needs_no_test(expression: str | None) -> None:
    assert filter_of(bounded_subscription("T", expression, "TAG")) is None


def test_tags_are_told_by_hash_in_the_first_phase_and_need_no_second() -> None:
    wanted = filter_of(bounded_subscription("T", "created || paid", None))
    assert wanted is not None
    assert wanted.by_code is not None
    assert [wanted.by_code(string_hash(tag)) for tag in ("created", "paid", "lost")] == [True, True, False]
    assert wanted.by_bits is wanted.by_message is None
    # Java gives these two the same hash: the broker cannot tell them apart, the client compares the text.
    same = filter_of(bounded_subscription("T", "Aa", "TAG"))
    assert same is not None
    assert same.wants_any(Arrival("T", 0, 1, [string_hash("BB")]), [string_hash("BB")])


def test_what_arrived_is_known_message_by_message() -> None:
    arrival = Arrival("T", 3, 12, [7, 8], [b"k\x01a\x02", b"k\x01b\x02"])
    assert [tuple(entry) for entry in arrival.entries()] == [
        ("T", 3, 10, 7, b"k\x01a\x02"),
        ("T", 3, 11, 8, b"k\x01b\x02"),
    ]
    assert [entry.properties for entry in Arrival("T", 0, 2, [1, 2]).entries()] == [b"", b""]
    both = joined([arrival, Arrival("T", 3, 13, [7], [b"k\x01c\x02"])])
    assert [(entry.offset, entry.properties[2:3]) for entry in both.entries()] == [(10, b"a"), (11, b"b"), (12, b"c")]
    assert distinct(both.tags_codes) == {7, 8}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (MessageFilter(frozenset({7})), True),
        (MessageFilter(frozenset({9})), False),
        (MessageFilter(by_message=lambda properties: b"b" in properties), True),
        (MessageFilter(by_message=lambda properties: b"c" in properties), False),
        (MessageFilter(frozenset({7}), by_message=lambda properties: b"b" in properties), False),
        (MessageFilter(by_message=lambda properties: False, most_looked_at=1), True),  # the second is not looked at
    ],
)
def test_an_arrival_is_asked_in_both_phases(wanted: MessageFilter, *, expected: bool) -> None:
    arrival = Arrival("T", 0, 2, [7, 8], [b"k\x01a\x02", b"k\x01b\x02"])
    assert wanted.wants_any(arrival, frozenset({7, 8})) is expected


def test_expressions_have_bounds() -> None:
    assert bounded_subscription("T", "a" * 32_768, "TAG").tags_set == {"a" * 32_768}
    with pytest.raises(ConfigError, match="at most 32768 characters, that for 'T' has 32769: use fewer tags"):
        bounded_subscription("T", "a" * 32_769, "TAG")
    assert len(bounded_subscription("T", "||".join(map(str, range(2048))), "TAG").code_set) == 2048
    with pytest.raises(ConfigError, match="at most 2048 tags, that for 'T' names 2049: use fewer tags"):
        bounded_subscription("T", "||".join(map(str, range(2049))), "TAG")
    with pytest.raises(ConfigError, match="tags"):
        check_bounds(SubscriptionData(topic="T", sub_string="a", code_set=set(range(2049))))
    check_bounds(SubscriptionData(topic="T", sub_string="a = 1", expression_type="SQL92", code_set=set(range(2049))))
