"""What heartbeats leave counts exactly, in any order of joining, renaming, subscribing, leaving and closing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketpy.errors import BrokerError
from rocketpy.wire.bodies.heartbeat import ConsumerData
from rocketpy.wire.bodies.subscription import SubscriptionData
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.broker.tables.clients import ClientChannel, size_of_membership
from rocketpy_broker_sim.broker.tables.consumers import ConsumerTable
from rocketpy_broker_sim.broker.tables.producers import ProducerTable
from rocketpy_broker_sim.config import BrokerConfig
from rocketpy_broker_sim.serving.memory import MEMBERSHIP, ConnectionCharges, MemoryBudget

numbers = st.integers(0, 3)
ids = st.sampled_from(["c", "client" * 20, "客户" * 30])
groups = st.sampled_from(["G", "H" * 50, "I"])
topics = st.lists(st.sampled_from(["T", "U" * 90, "V"]), unique=True)


class Peer:
    """A connection whose closing the charges hear of."""

    def __init__(self, number: int) -> None:
        self.address = f"10.0.0.{number}:1"
        self.is_open = True
        self._callbacks: list[Callable[[Any], object]] = []

    def add_close_callback(self, callback: Callable[[Any], object]) -> None:
        self._callbacks.append(callback)

    def close(self, error: Exception | None = None) -> None:
        self.is_open = False
        for callback in self._callbacks:
            callback(self)


class MembersOfGroups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.budget = MemoryBudget(24 * 1024)
        charges: Any = ConnectionCharges(self.budget.account(MEMBERSHIP))
        config = BrokerConfig(max_groups_per_client=2)
        self.consumers = ConsumerTable(config, clock=lambda: 0.0, notify=lambda group: None, charges=charges)
        self.producers = ProducerTable(config, clock=lambda: 0.0, charges=charges)
        self.peers = [Peer(number) for number in range(4)]

    def _attempt(self, change: Callable[[], object]) -> None:
        try:
            change()
        except BrokerError:
            self.what_is_counted_is_what_is_there()

    @rule(number=numbers, client_id=ids, group=groups, names=topics)
    def consume(self, number: int, client_id: str, group: str, names: list[str]) -> None:
        data = ConsumerData(group_name=group, subscription_data_set=[SubscriptionData(topic=name) for name in names])
        client = ClientChannel(self.peers[number], client_id)
        self._attempt(lambda: self.consumers.register(group, client, data))

    @rule(number=numbers, client_id=ids, group=groups)
    def produce(self, number: int, client_id: str, group: str) -> None:
        self._attempt(lambda: self.producers.register(group, ClientChannel(self.peers[number], client_id)))

    @rule(number=numbers, group=groups)
    def leave(self, number: int, group: str) -> None:
        self.consumers.unregister(group, self.peers[number])
        self.producers.unregister(group, self.peers[number])

    @rule(number=numbers)
    def close(self, number: int) -> None:
        closed, self.peers[number] = self.peers[number], Peer(number)
        closed.close()
        run_steps(self.consumers.on_close(closed))
        run_steps(self.producers.on_close(closed))

    @invariant()
    def what_is_counted_is_what_is_there(self) -> None:
        taken = 0
        for group in self.consumers.groups():
            members = group.clients.items()
            taken += sum(size_of_membership(group.name, client.client_id) for peer, client in members if peer.is_open)
            taken += group.told_size if group.told_by is not None and group.told_by.is_open else 0
        for name in self.producers.groups():
            members = self.producers.clients(name)
            taken += sum(size_of_membership(name, client.client_id) for client in members if client.channel.is_open)
        assert self.budget.kept == taken <= self.budget.most


TestMembersOfGroups = MembersOfGroups.TestCase
TestMembersOfGroups.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_heartbeat_that_is_refused_for_its_subscriptions_leaves_no_member() -> None:
    """Its next one would be no change, so that the others would never be told."""
    told: list[str] = []
    budget = MemoryBudget(8 * 1024)
    charges: Any = ConnectionCharges(budget.account(MEMBERSHIP))
    table = ConsumerTable(BrokerConfig(), clock=lambda: 0.0, notify=told.append, charges=charges)
    peer = Peer(1)
    subscriptions = [SubscriptionData(topic=f"T{number}") for number in range(8)]
    table.register("G", ClientChannel(Peer(2), "other"), ConsumerData(group_name="G"))
    before = budget.kept
    with pytest.raises(BrokerError, match="as much for its peers as it may"):
        table.register("G", ClientChannel(peer, "c"), ConsumerData(group_name="G", subscription_data_set=subscriptions))
    assert table.client_ids("G") == ["other"]
    assert budget.kept == before
    with pytest.raises(BrokerError):
        table.register(
            "New", ClientChannel(peer, "c"), ConsumerData(group_name="New", subscription_data_set=subscriptions)
        )
    assert table.group("New") is None
    told.clear()
    assert table.register("G", ClientChannel(peer, "c"), ConsumerData(group_name="G"))
    assert told == ["G"]
