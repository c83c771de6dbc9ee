"""Where a delayed message waits, and how it finds back."""

from __future__ import annotations

import pytest

from rocketpy.errors import ConfigError
from rocketpy.wire.properties import decode_properties
from rocketpy_broker_sim.broker.delays.delay import delay_level, level_of_queue, queue_of_level, target, to_delay_topic
from rocketpy_broker_sim.store.delay_levels import DelayLevels
from rocketpy_broker_sim.store.put_result import IncomingMessage


def test_a_delayed_message_waits_in_the_queue_of_its_level_and_says_where_it_belongs() -> None:
    message = IncomingMessage("Orders", 3, b"x")
    properties = {"TAGS": "a", "DELAY": "2", "TIMER_DELAY_SEC": "7"}
    to_delay_topic(message, properties, 2, 18)
    assert (message.topic, message.queue_id) == ("SCHEDULE_TOPIC_XXXX", 1)
    assert decode_properties(message.properties) == {
        "TAGS": "a", "DELAY": "2", "REAL_TOPIC": "Orders", "REAL_QID": "3",
    }  # fmt: skip
    assert target(decode_properties(message.properties)) == ("Orders", 3)


def test_a_level_above_the_highest_is_the_highest() -> None:
    message = IncomingMessage("Orders", 0, b"x")
    properties = {"DELAY": "19"}
    to_delay_topic(message, properties, 19, 18)
    assert message.queue_id == 17
    assert properties["DELAY"] == "18"


@pytest.mark.parametrize(
    ("text", "level"),
    [(None, 0), ("0", 0), ("3", 3), ("-1", -1), ("", None), ("x", None), ("1" * 12, None), ("٣", None)],
)
def test_levels_are_read_with_care(text: str | None, level: int | None) -> None:
    assert delay_level({} if text is None else {"DELAY": text}) == level


@pytest.mark.parametrize(
    "properties", [{}, {"REAL_TOPIC": "T"}, {"REAL_QID": "1"}, {"REAL_TOPIC": "T", "REAL_QID": "-1"}]
)
def test_a_message_that_does_not_say_where_it_belongs_has_no_target(properties: dict[str, str]) -> None:
    assert target(properties) is None


def test_levels_and_queues() -> None:
    assert [queue_of_level(1), queue_of_level(18), level_of_queue(0), level_of_queue(17)] == [0, 17, 1, 18]


@pytest.mark.parametrize("text", ["", "  ", "1x", "1s -1s", "1", "9999999999d", "٣s"])
def test_threat_M8_delay_levels_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="messageDelayLevel"):
        DelayLevels(text)
