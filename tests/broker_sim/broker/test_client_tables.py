"""Who is connected: members join, change, leave, fall silent; the others hear of it."""

from __future__ import annotations

import pytest

from rocketpy.errors import BrokerError
from rocketpy.wire.enums import MessageModel
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.broker.tables.clients import Channel
from rocketpy_broker_sim.broker.tables.consumers import ConsumerTable
from rocketpy_broker_sim.broker.tables.producers import ProducerTable
from rocketpy_broker_sim.config import BrokerConfig
from tests.broker_sim.broker.support import Clock, FakeChannel, client, consumer


class Setup:
    """A table of consumers that writes down whom it tells what."""

    def __init__(self, **settings: object) -> None:
        self.clock = Clock()
        self.told: list[tuple[str, list[Channel]]] = []
        config = BrokerConfig(**settings)  # type: ignore[arg-type]
        self.table = ConsumerTable(
            config, clock=self.clock, notify=lambda group: self.told.append((group, self.table.told(group)))
        )
        self.a, self.b = FakeChannel("a"), FakeChannel("b")

    def heard(self) -> list[tuple[str, list[Channel]]]:
        told, self.told = self.told, []
        return told


def test_RB4_members_join_and_leave_and_the_others_hear_of_it() -> None:
    setup = Setup()
    table, a, b = setup.table, setup.a, setup.b
    assert table.client_ids("G") == []
    assert table.register("G", client(a), consumer("T"))
    assert setup.heard() == [("G", [a])]
    assert not table.register("G", client(a), consumer("T"))
    assert setup.heard() == []
    assert table.register("G", client(b), consumer("T"))
    assert setup.heard() == [("G", [a, b])]
    assert table.client_ids("G") == ["id-a", "id-b"]
    assert table.unregister("G", a)
    assert setup.heard() == [("G", [b])]
    assert not table.unregister("G", a)
    assert not table.unregister("H", b)
    assert setup.heard() == []
    assert table.unregister("G", b)
    assert setup.heard() == []
    assert table.group("G") is None
    assert table.client_ids("G") == []


def test_RB4_a_connection_that_ends_leaves_all_its_groups() -> None:
    setup = Setup()
    table, a, b = setup.table, setup.a, setup.b
    for group in ("G", "H"):
        table.register(group, client(a), consumer("T"))
    table.register("G", client(b), consumer("T"))
    setup.heard()
    run_steps(table.on_close(a))
    run_steps(table.on_close(a))
    assert setup.heard() == [("G", [b])]
    assert table.client_ids("G") == ["id-b"]
    assert table.group("H") is None


def test_RB4_a_silent_member_is_dropped_after_two_minutes() -> None:
    setup = Setup()
    table, a, b = setup.table, setup.a, setup.b
    table.register("G", client(a), consumer("T"))
    setup.clock.now += 60
    table.register("G", client(b), consumer("T"))
    setup.heard()
    setup.clock.now += 60
    assert run_steps(table.scan()) == []
    setup.clock.now += 0.5
    assert run_steps(table.scan()) == [a]
    assert setup.heard() == [("G", [b])]
    assert table.client_ids("G") == ["id-b"]
    setup.clock.now += 200
    assert run_steps(table.scan()) == [b]
    assert table.groups() == []
    assert setup.heard() == []


def test_RB4_a_heartbeat_keeps_a_member_alive() -> None:
    setup = Setup()
    for _ in range(10):
        setup.table.register("G", client(setup.a), consumer("T"))
        setup.clock.now += 100
        assert run_steps(setup.table.scan()) == []


def test_RB4_a_client_that_reconnects_is_listed_once() -> None:
    setup = Setup()
    setup.table.register("G", client(setup.a, "same"), consumer("T"))
    setup.table.register("G", client(setup.b, "same"), consumer("T"))
    assert setup.table.client_ids("G") == ["same"]
    found = setup.table.find_client("G", "same")
    assert found is not None
    assert found.channel is setup.b
    assert setup.table.find_client("G", "other") is None


def test_RB4_RB5_topics_that_come_or_go_are_told_and_newer_subscriptions_hold() -> None:
    setup = Setup()
    table, a = setup.table, setup.a
    table.register("G", client(a), consumer("T", version=5))
    setup.heard()
    assert table.register("G", client(a), consumer("T", "U", version=5))
    assert setup.heard() == [("G", [a])]
    assert not table.register("G", client(a), consumer("T", "U", version=6))
    assert table.subscription("G", "T").sub_version == 6  # type: ignore[union-attr]
    assert not table.register("G", client(a), consumer("T", "U", version=4))
    assert table.subscription("G", "T").sub_version == 6  # type: ignore[union-attr]
    assert table.register("G", client(a), consumer("U", version=7))
    assert table.subscription("G", "T") is None
    assert table.subscription("G", "U").sub_version == 7  # type: ignore[union-attr]


def test_RB5_a_heartbeat_without_subscriptions_leaves_them_alone() -> None:
    setup = Setup()
    setup.table.register("G", client(setup.a), consumer("T"))
    assert not setup.table.register("G", client(setup.a), consumer(), with_subscriptions=False)
    assert setup.table.subscription("G", "T") is not None


def test_RB5_a_fingerprint_that_differs_from_the_one_before_is_noticed() -> None:
    setup = Setup()
    assert not setup.table.fingerprint_changed("G", 1)
    setup.table.register("G", client(setup.a), consumer("T"))
    assert [setup.table.fingerprint_changed("G", number) for number in (1, 1, 2, 2)] == [False, False, True, False]


@pytest.mark.parametrize(
    ("settings", "model", "notify"),
    [
        ({"notify_consumer_ids_changed_enable": False}, MessageModel.CLUSTERING, True),
        ({}, MessageModel.BROADCASTING, True),
        ({}, MessageModel.CLUSTERING, False),
    ],
)
def test_RB5_who_does_not_want_to_hear_is_not_told(
    settings: dict[str, object], model: MessageModel, notify: bool
) -> None:
    setup = Setup(**settings)
    for channel in (setup.a, setup.b):
        assert setup.table.register("G", client(channel), consumer("T", model=model), notify=notify)
    run_steps(setup.table.on_close(setup.a))
    assert setup.heard() == []


def test_threat_L8_a_group_has_no_more_clients_than_it_may() -> None:
    setup = Setup(max_clients_per_group=1)
    setup.table.register("G", client(setup.a), consumer("T"))
    with pytest.raises(BrokerError, match="more are not allowed"):
        setup.table.register("G", client(setup.b), consumer("T"))
    assert not setup.table.register("G", client(setup.a), consumer("T"))
    run_steps(setup.table.on_close(setup.b))
    assert setup.table.client_ids("G") == ["id-a"]


# --- producers -------------------------------------------------------------------------------------------


def test_RB4_producers_join_leave_and_fall_silent() -> None:
    clock = Clock()
    table = ProducerTable(BrokerConfig(), clock=clock)
    a, b = FakeChannel("a"), FakeChannel("b")
    assert table.register("P", client(a))
    assert not table.register("P", client(a))
    assert table.register("P", client(b))
    assert table.register("Q", client(b))
    assert [each.client_id for each in table.clients("P")] == ["id-a", "id-b"]
    assert table.find_client("id-b").channel is b  # type: ignore[union-attr]
    assert table.find_client("none") is None
    table.register("P", client(b, "renamed"))
    assert table.find_client("renamed").channel is b  # type: ignore[union-attr]
    table.register("P", client(b, "id-b"))
    assert table.find_client("renamed") is None
    clock.now += 119
    table.register("P", client(a))
    clock.now += 2
    assert run_steps(table.scan()) == [b]
    assert table.groups() == ["P"]
    assert table.unregister("P", a)
    assert not table.unregister("P", a)
    run_steps(table.on_close(a))
    assert table.groups() == []


def test_RB4_a_producer_that_disconnects_leaves_all_its_groups() -> None:
    table = ProducerTable(BrokerConfig(), clock=Clock())
    a, b = FakeChannel("a"), FakeChannel("b")
    for group in ("P", "Q"):
        table.register(group, client(a))
    table.register("Q", client(b))
    run_steps(table.on_close(a))
    assert table.groups() == ["Q"]
    assert [each.client_id for each in table.clients("Q")] == ["id-b"]


def test_threat_L8_producer_groups_and_their_clients_are_bounded() -> None:
    table = ProducerTable(BrokerConfig(max_clients_per_group=1, max_groups=1), clock=Clock())
    table.register("P", client(FakeChannel("a")))
    for group in ("P", "Q"):
        with pytest.raises(BrokerError):
            table.register(group, client(FakeChannel("b")))
    assert table.groups() == ["P"]
