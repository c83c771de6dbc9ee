"""Tag expressions within bounds, and the test by hash."""

from __future__ import annotations

import pytest

from rocketpy.errors import ConfigError
from rocketpy.wire.bodies.subscription import SubscriptionData
from rocketpy.wire.java_hash import string_hash
from rocketpy_broker_sim.broker.filtering import bounded_subscription, check_bounds, tag_match


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_everything_needs_no_test(expression: str | None) -> None:
    assert tag_match(bounded_subscription("T", expression, "TAG")) is None


def test_tags_are_told_by_hash() -> None:
    match = tag_match(bounded_subscription("T", "created || paid", None))
    assert match is not None
    assert [match(string_hash(tag)) for tag in ("created", "paid", "lost")] == [True, True, False]
    # Java gives these two the same hash: the broker cannot tell them apart, the client does.
    assert tag_match(bounded_subscription("T", "Aa", "TAG"))(string_hash("BB"))


def test_expressions_have_bounds() -> None:
    with pytest.raises(ConfigError, match="characters"):
        bounded_subscription("T", "a" * 4097, "TAG")
    with pytest.raises(ConfigError, match="tags"):
        bounded_subscription("T", "||".join(map(str, range(257))), "TAG")
    with pytest.raises(ConfigError, match="tags"):
        check_bounds(SubscriptionData(topic="T", sub_string="a", code_set=set(range(257))))
    check_bounds(SubscriptionData(topic="T", sub_string="a = 1", expression_type="SQL92", code_set=set(range(257))))
