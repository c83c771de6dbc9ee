"""Whatever brokers do, and in whatever order their slices come: when all have left, nothing of them is left."""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence

import pytest

from rocketpy.wire.bodies.registration import TopicConfigAndMappingSerializeWrapper
from rocketpy.wire.bodies.topics import DataVersion, TopicConfig
from rocketpy_broker_sim.namesrv.route_info import BrokerRegistration, Identity, RouteInfo

Steps = Generator[object, None, object]


def registration(
    identity: Identity,
    topics: int,
    *,
    connection: str = "A",
    version: DataVersion | None = None,
    acting_master: bool | None = None,
    filter_servers: Sequence[str] = (),
) -> BrokerRegistration:
    return BrokerRegistration(
        identity=identity,
        ha_address="",
        zone_name=None,
        timeout_ms=None,
        acting_master=acting_master,
        topics=TopicConfigAndMappingSerializeWrapper(
            topic_config_table={f"T{n}": TopicConfig(topic_name=f"T{n}") for n in range(topics)},
            data_version=version or DataVersion(),
        ),
        filter_servers=tuple(filter_servers),
        connection=connection,
        now=0.0,
    )


def broker(cluster: str = "c1", name: str = "b1", address: str = "x:1", broker_id: int = 0) -> Identity:
    return Identity(cluster=cluster, broker_name=name, address=address, broker_id=broker_id)


def assert_empty(routes: RouteInfo) -> None:
    assert not routes.live
    assert not routes.brokers
    assert not routes.clusters
    assert not routes.queues
    assert not routes.table.bytes
    assert not routes.filter_servers.bytes


def test_a_registration_that_is_refused_changes_nothing() -> None:
    """It comes under another id, with a single topic: that of a stranger."""
    routes = RouteInfo()
    assert routes.register(registration(broker(broker_id=1), 3, acting_master=True)) is not None
    before = routes.brokers["b1"].to_json()
    assert routes.register(registration(broker(broker_id=2), 1)) is None
    assert routes.brokers["b1"].to_json() == before
    assert routes.brokers["b1"].enable_acting_master
    routes.unregister([broker(broker_id=1)])
    assert_empty(routes)


def test_a_name_that_goes_while_its_topics_are_taken_over_leaves_none() -> None:
    """Another cluster says that the broker of that name and address is gone."""
    routes = RouteInfo()
    steps = routes.register_steps(registration(broker(), 5_000))
    while len(routes.queues) < 1_000:
        next(steps)
    routes.unregister([broker(cluster="c2")])
    for _ in steps:
        pass
    assert not routes.queues
    routes.unregister([broker()])
    assert_empty(routes)


@pytest.mark.parametrize("seed", range(150))
def test_nothing_is_left(seed: int) -> None:
    source = random.Random(seed)
    later: list[Steps] = []
    routes = RouteInfo(later=later.append, delete_topic_with_registration=source.random() < 0.5)
    running: list[Steps] = []

    def some_broker() -> Identity:
        return broker(
            source.choice(["c1", "c2"]), source.choice(["b1", "b2"]), f"{source.choice('xyz')}:1", source.randrange(3)
        )

    def begin() -> None:
        match source.randrange(8):
            case 0:
                routes.unregister([some_broker()])
            case 1:
                running.append(routes.leave_steps(source.choice("ABC")))
            case 2:
                running.append(routes.write_permission_steps(source.choice(["b1", "b2"]), allowed=False))
            case 3:
                routes.delete_topic(f"T{source.randrange(2)}", source.choice([None, "c1"]))
            case _:
                version = DataVersion(counter=source.randrange(3), state_version=source.randrange(2), timestamp=1)
                each = registration(
                    some_broker(),
                    source.choice([0, 1, 2, 70, 200]),
                    connection=source.choice("ABC"),
                    version=version,
                    acting_master=source.choice([None, True, False]),
                    filter_servers=["f:1"] * source.randrange(3),
                )
                running.append(routes.register_steps(each))

    def go_on(works: list[Steps]) -> None:
        for each in list(works):
            if not _is_under_way(each, source.choice([0, 1, 2, 3, 1000])):
                works.remove(each)

    for _ in range(source.randrange(1, 40)):
        begin()
        go_on(running)
        go_on(later)
        if running and source.random() < 0.1:
            running.pop(source.randrange(len(running))).close()  # its connection has closed
    for each in running:
        each.close()
    routes.unregister([live.identity for live in routes.live.values()])
    while later:
        _is_under_way(later.pop(), 1000)
    assert_empty(routes)


def _is_under_way(steps: Steps, count: int) -> bool:
    """Do so many steps; whether there are others."""
    return sum(1 for _ in zip(range(count), steps, strict=False)) == count
