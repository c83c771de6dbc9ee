"""A service in blocking code: one half publishes orders, the other half bills them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Self

from rocketpy.sync import Message, MessageExt, Producer, PushConsumer, RetryLater


def place_order(producer: Producer, number: int, drink: str) -> str:
    """Publish an order; returns the id of its message."""
    body = json.dumps({"number": number, "drink": drink}).encode()
    return producer.send(Message("Orders", body, tags="created", keys=[str(number)])).message_id


class NotReachable(Exception):
    """The bank cannot be reached now."""


class Billing:
    """Charges for every order. What the bank cannot take now is tried again, what cannot be read never."""

    def __init__(self, namesrv: str, charge: Callable[[int], None], **settings: Any) -> None:
        self._charge = charge
        self._consumer = PushConsumer("billing", namesrv=namesrv, max_reconsume_times=2, **settings)
        self._consumer.subscribe("Orders", self._on_order, tags="created")

    def __enter__(self) -> Self:
        self._consumer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._consumer.close()

    def _on_order(self, message: MessageExt) -> RetryLater | None:
        try:
            number = json.loads(message.body)["number"]
        except ValueError:
            return RetryLater(-1)  # to the dead letters, at once
        self._charge(number)  # when it raises, the message comes again later
        return None
