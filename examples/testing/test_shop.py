"""Tests of the blocking service."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from examples.testing.shop import Billing, NotReachable, place_order
from rocketpy.errors import RequestTimeoutError, TopicNotFoundError
from rocketpy.sync import Message, Producer
from rocketpy_broker_sim import BlockingLocalCluster

pytestmark = pytest.mark.rocketmq(topics=["Orders"])


@pytest.fixture
def producer(rocketmq: BlockingLocalCluster) -> Iterator[Producer]:
    with Producer("shop", namesrv=rocketmq.name_server_addresses) as producer:
        yield producer


# --- a function that sends -----------------------------------------------------------------------------


def test_an_order_is_published(rocketmq: BlockingLocalCluster, producer: Producer) -> None:
    message_id = place_order(producer, 42, "coffee")
    [message] = rocketmq.messages("Orders")
    assert json.loads(message.body) == {"number": 42, "drink": "coffee"}
    assert (message.message_id, message.tags, message.keys) == (message_id, "created", ("42",))


def test_the_address_may_come_from_the_environment(
    rocketmq: BlockingLocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", rocketmq.name_server_addresses)
    with Producer("shop") as producer:
        place_order(producer, 42, "coffee")
    assert len(rocketmq.messages("Orders")) == 1


def test_a_busy_broker_is_asked_again(rocketmq: BlockingLocalCluster, producer: Producer) -> None:
    rocketmq.refuse_sends(times=2)
    place_order(producer, 42, "coffee")
    assert len(rocketmq.messages("Orders")) == 1


def test_an_order_whose_answer_is_lost_may_be_stored_all_the_same(rocketmq: BlockingLocalCluster) -> None:
    rocketmq.lose_answers()
    with Producer("shop", namesrv=rocketmq.name_server_addresses, send_timeout=0.2) as producer:
        with pytest.raises(RequestTimeoutError):
            place_order(producer, 42, "coffee")
    assert len(rocketmq.messages("Orders")) == 1


@pytest.mark.rocketmq(brokers=2, topics={"Payments": 8}, auto_create_topic_enable=False)
def test_nothing_is_published_by_mistake(producer: Producer) -> None:
    assert len(producer.queues("Payments")) == 16
    with pytest.raises(TopicNotFoundError, match="Orders"):
        place_order(producer, 42, "coffee")


# --- a service that consumes ---------------------------------------------------------------------------


def test_every_order_is_charged(rocketmq: BlockingLocalCluster, producer: Producer) -> None:
    charged: list[int] = []
    with Billing(rocketmq.name_server_addresses, charged.append):
        for number in range(10):
            place_order(producer, number, "tea")
        rocketmq.wait_consumed("billing", "Orders")
    assert sorted(charged) == list(range(10))


def test_what_cannot_be_read_goes_to_the_dead_letters(rocketmq: BlockingLocalCluster) -> None:
    with Billing(rocketmq.name_server_addresses, charge=print):
        rocketmq.send(Message("Orders", b"no JSON", tags="created"))
        [message] = rocketmq.wait_dead_letters("billing")
    assert message.body == b"no JSON"


@pytest.mark.rocketmq(message_delay_level="0s")  # every delay there is: none
def test_the_bank_is_asked_again(rocketmq: BlockingLocalCluster, producer: Producer) -> None:
    tries: list[int] = []

    def charge(number: int) -> None:
        tries.append(number)
        if len(tries) < 3:
            raise NotReachable

    with Billing(rocketmq.name_server_addresses, charge):
        place_order(producer, 42, "coffee")
        rocketmq.wait_consumed("billing", "Orders")
    assert tries == [42, 42, 42]
    assert rocketmq.dead_letters("billing") == []


# --- a broker that dies --------------------------------------------------------------------------------


@pytest.mark.rocketmq(brokers=2)
def test_the_shop_stays_open_when_a_broker_dies(rocketmq: BlockingLocalCluster, producer: Producer) -> None:
    charged: list[int] = []
    with Billing(rocketmq.name_server_addresses, charged.append, pull_time_delay_when_exception=0.1):
        for number in range(20):
            place_order(producer, number, "tea")
            if number == 10:
                rocketmq.kill_broker(0)
        rocketmq.start_broker(0)
        rocketmq.wait_consumed("billing", "Orders", timeout=30)
    assert set(charged) == set(range(20))  # in a fault some may be charged twice: at least once is what is promised


@pytest.mark.rocketmq(brokers=2)
def test_an_order_survives_a_cable_that_is_pulled(rocketmq: BlockingLocalCluster, producer: Producer) -> None:
    for number in range(20):
        place_order(producer, number, "coffee")
        if number % 5 == 0:
            assert rocketmq.cut_connections() > 0
    bodies = {message.body for message in rocketmq.messages("Orders")}
    assert len(bodies) == 20
