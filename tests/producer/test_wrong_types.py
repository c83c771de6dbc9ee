"""Attributes of messages that were replaced by what cannot be sent: every way to send says which."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from rocketpy import TransactionProducer
from rocketpy.errors import ConfigError, LocalProtocolError, SendManyError
from rocketpy.message import Message, MessageQueue
from rocketpy.producer.accumulator import Accumulator
from tests.producer.test_auto_batching import LINGER, BatchBroker

REFUSALS = ConfigError, LocalProtocolError
WRONG = [
    ("topic", [], "the topic of a message was replaced by an object of type list: it must be a str|to T and \\[\\]"),
    ("topic", None, "None"),
    (
        "wire_properties",
        None,
        "the wire_properties of a message to T were replaced by an object of type NoneType: they",
    ),
    ("wire_properties", [], "replaced by an object of type list: they must be a dict"),
    ("flag", None, "the flag of a message is a whole number from .*, not None|flags are 32-bit"),
    ("flag", "1", "the flag of a message is a whole number from .*, not '1'|flags are 32-bit"),
    ("body", None, "it must be bytes"),
]


def wrong(name, value):
    made = Message("T", b"wrong")
    setattr(made, name, value)
    return made


async def batches(producer, message):
    for batch in producer.batches([Message("T", b"x"), message]):
        await producer.send_batch(batch)


def ways(producer):
    queue = MessageQueue("T", "broker-a", 1)
    return {
        "send": producer.send,
        "send to a queue": partial(producer.send, queue=queue),
        "send_oneway": producer.send_oneway,
        "send_batch": lambda message: producer.send_batch([Message("T", b"x"), message]),
        "send_batch, first": lambda message: producer.send_batch([message, Message("T", b"x")]),
        "batches": partial(batches, producer),
        "request": producer.request,
    }


@pytest.mark.parametrize("linger", [None, LINGER])
@pytest.mark.parametrize(("name", "value", "says"), WRONG)
async def test_every_way_to_send_says_what_was_replaced(autojump_clock, opened, name, value, says, linger):
    broker = BatchBroker()
    async with opened(broker, linger=linger) as (producer, _):
        await producer.send(Message("T", b"before"))
        for way in ways(producer).values():
            with pytest.raises(REFUSALS, match=says):
                await way(wrong(name, value))
        with pytest.raises(SendManyError) as caught:
            await producer.send_many([Message("T", b"one"), wrong(name, value), Message("T", b"two")])
        assert isinstance(caught.value.__cause__, REFUSALS)
        await producer.send(Message("T", b"after"))
    assert [taken.body for taken in broker.taken].count(b"after") == 1


async def test_a_wait_that_is_no_text_is_refused_and_waits_for_nothing(autojump_clock, opened):
    """The accumulator would look for its batch, and not find it."""
    async with opened(BatchBroker(), linger=LINGER) as (producer, _):
        for way in (producer.send, ways(producer)["send_batch"]):
            with pytest.raises(ConfigError, match="WAIT"):
                await way(wrong("wire_properties", {"WAIT": []}))


async def test_a_message_that_cannot_be_put_into_a_batch_fails_alone(autojump_clock, opened, monkeypatch):
    place, errors = Accumulator._place, []

    def place_some(self, entry):
        if entry.body == b"1":
            raise ZeroDivisionError
        return place(self, entry)

    async def send(producer, body):
        try:
            await producer.send(Message("T", body))
        except ZeroDivisionError:
            errors.append(body)

    monkeypatch.setattr(Accumulator, "_place", place_some)
    monkeypatch.setattr("rocketpy.producer.batching.Batch.take_alike", lambda *_: 0)
    async with opened(BatchBroker(), linger=LINGER) as (producer, _):
        async with trio.open_nursery() as nursery:
            for body in (b"0", b"1", b"2"):
                nursery.start_soon(send, producer, body)
    assert errors == [b"1"]


@pytest.mark.parametrize("linger", [None, LINGER])
async def test_a_half_message_made_by_hand_is_refused(autojump_clock, opened, linger):
    """As is one with the properties of a message that a consumer got."""
    broker = BatchBroker()
    received = {"TRAN_MSG": "True", "PGROUP": "elsewhere", "REAL_TOPIC": "T", "KEYS": "k"}
    async with opened(broker, linger=linger) as (producer, _):
        for way in ("send", "send to a queue", "send_oneway", "request"):
            with pytest.raises(ConfigError, match=r"TRAN_MSG makes this a half.*send_in_transaction.*or remove"):
                await ways(producer)[way](wrong("wire_properties", received))
        await producer.send(wrong("wire_properties", received | {"TRAN_MSG": "false"}))
    assert len(broker.taken) == 1


@pytest.mark.parametrize("group", ["pg", "elsewhere"])
def test_a_producer_of_transactions_makes_half_messages_of_its_group_alone(group):
    producer = TransactionProducer("pg", namesrv="127.0.0.1:9876", checker=lambda message: None)
    preparer = producer._preparer
    half, _ = producer.outside.transactions.begin(Message("T", b"x"), lambda message, arg: None)
    assert preparer.one(half).message is half
    half.wire_properties["PGROUP"] = group
    if group == "pg":
        preparer.one(half)
    else:
        with pytest.raises(ConfigError, match="half message"):
            preparer.one(half)


@pytest.mark.parametrize(("name", "value", "says"), WRONG[:4])
def test_a_message_of_a_transaction_is_explained_too(name, value, says):
    producer = TransactionProducer("pg", namesrv="127.0.0.1:9876", checker=lambda message: None)
    with pytest.raises(ConfigError, match=says):
        producer._preparer.one(producer.outside.transactions.begin(wrong(name, value), lambda message, arg: None)[0])
