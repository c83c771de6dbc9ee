"""Chooses queues of a topic by broker and number. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rocketpy.errors import BrokerNotFoundError, ConfigError

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue

__all__ = ["chosen", "matching"]


def chosen(
    queues: Sequence[MessageQueue], topic: str, brokers: Sequence[str], numbers: Sequence[int]
) -> tuple[MessageQueue, ...]:
    """The queues on some brokers and with some numbers; all brokers or numbers if there are none.

    Raises:
        BrokerNotFoundError: the topic has no queue on one of the brokers.
        ConfigError: no chosen broker has a queue of one of the numbers.
    """
    known = sorted({each.broker_name for each in queues})
    for name in brokers:
        if name not in known:
            raise BrokerNotFoundError(
                f"the topic {topic} has no queue on a broker {name!r:.100}; it is on {', '.join(known) or 'none'}",
                name=name,
                known=known,
            )
    present = sorted({each.queue_id for each in matching(queues, brokers, ())})
    for number in numbers:
        if number not in present:
            raise ConfigError(f"the topic {topic} has no queue {number}; its queues are {_range(present)}")
    return matching(queues, brokers, numbers)


def matching(
    queues: Sequence[MessageQueue], brokers: Sequence[str], numbers: Sequence[int]
) -> tuple[MessageQueue, ...]:
    """The queues on some brokers and with some numbers; all brokers or numbers if there are none."""
    return tuple(
        each
        for each in queues
        if (not brokers or each.broker_name in brokers) and (not numbers or each.queue_id in numbers)
    )


def _range(numbers: Sequence[int]) -> str:
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers)) or "none"
