"""What spans say of a message."""

from __future__ import annotations

import pytest

from rocketpy.client.transactions import half_of
from rocketpy.message import Message
from rocketpy.otel.conventions import KIND, of_message


def _of(**fields: object) -> Message:
    return Message("Orders", b"x", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (_of(), "normal"),
        (_of(tags="t", keys=["k"]), "normal"),
        (_of(sharding_key="k"), "fifo"),
        (_of(delay_level=3), "delay"),
        (_of(delay=3), "delay"),
        (_of(deliver_at=2**42), "delay"),
        (_of(delay=3, sharding_key="k"), "delay"),
        (half_of(_of(), "orders", "0" * 32), "transaction"),
        (half_of(_of(sharding_key="k"), "orders", "0" * 32), "transaction"),
    ],
)
def test_K7_the_type_of_a_message_is_taken_from_its_properties(message: Message, kind: str) -> None:
    assert of_message(message)[KIND] == kind
