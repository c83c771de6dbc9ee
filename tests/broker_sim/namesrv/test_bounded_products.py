"""What grows by two names at once is bounded at a name server: by the brokers that live, and by what they hold."""

from __future__ import annotations

import random

import pytest

from rocketpy.wire.bodies.registration import Piece
from rocketpy.wire.bodies.route import QueueData
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy_broker_sim.namesrv import route_info
from rocketpy_broker_sim.namesrv.route_info import BYTES_A_BROKER, Identity, RouteInfo
from tests.broker_sim.namesrv.test_route_info import registration


def broker(cluster, name, address, broker_id=0):
    return Identity(cluster=cluster, broker_name=name, address=address, broker_id=broker_id)


def pairs(tables):
    return {(cluster, name) for cluster, names in tables.clusters.items() for name in names}


def test_threat_L8_names_that_went_through_many_clusters_stay_in_those_where_they_live():
    tables = RouteInfo()
    for number in range(20):
        tables.register(registration(broker("home", f"b{number}", f"10.0.0.1:{number}")))
    for cluster in range(20):
        for number in range(20):
            tables.register(registration(broker(f"c{cluster}", f"b{number}", "10.0.0.2:1", 5)))
    living = {(each.identity.cluster, each.identity.broker_name) for each in tables.live.values()}
    assert pairs(tables) == living
    assert len(living) == 40


@pytest.mark.slow
def test_clusters_hold_the_names_that_live_in_them_whatever_happened():
    for seed in range(200):
        tables, source = RouteInfo(), random.Random(seed)
        for _ in range(60):
            cluster, name = source.choice("xyz"), source.choice("abc")
            who = broker(cluster, name, f"10.0.0.1:{source.randrange(3)}", source.randrange(2))
            if source.random() < 0.6:
                tables.register(registration(who, filter_servers=("f:1",) * source.randrange(3)))
            else:
                tables.unregister([who])
            living = {(each.identity.cluster, each.identity.broker_name) for each in tables.live.values()}
            assert pairs(tables) <= living
            assert {name for _, name in pairs(tables)} == set(tables.brokers)
            assert tables.filter_servers.bytes == sum(map(tables.filter_servers.weigh, tables.filter_servers.values()))
            assert tables.table.bytes == sum(tables.table.bytes_of.values())
        tables.unregister([each.identity for each in tables.live.values()])
        assert (tables.clusters, tables.filter_servers.bytes) == ({}, 0)


def test_threat_L8_filter_servers_count_for_what_they_take(monkeypatch):
    tables, link = RouteInfo(), object()
    servers = tuple("f" * 300 for _ in range(64))
    monkeypatch.setattr(route_info, "MAX_BYTES_OF_ONE", 100_000)
    taken = [
        tables.register(registration(broker("c", f"b{n}", f"a:{n}"), filter_servers=servers, connection=link))
        for n in range(10)
    ]
    assert [each is not None for each in taken] == [True] * 3 + [False] * 7
    again = registration(broker("c", "b0", "a:0"), filter_servers=servers, connection=link)
    assert tables.register(again) is not None
    assert tables.kept_for(link) == tables.table.bytes + 3 * (BYTES_A_BROKER + 64 * 396)


def test_one_name_under_many_addresses_counts_for_each():
    tables, link = RouteInfo(), object()
    for number in range(5):
        tables.register(registration(broker("c", "a", f"a:{number}", number), connection=link))
    assert tables.kept_for(link) == tables.table.bytes + 5 * BYTES_A_BROKER


def test_settings_of_queues_that_changed_are_kept_no_longer_than_topics():
    tables = RouteInfo()
    who = broker("c", "b", "a:1")
    tables.register(registration(who))
    for number in range(100):
        queue = QueueData(broker_name="b", read_queue_nums=number, write_queue_nums=1, perm=6)
        assert tables.register_topic("t1", {"b": queue})
    assert len(tables.table._shared["b"]) <= 2


def test_topics_that_are_gone_are_not_kept_for_the_end_of_a_round():
    tables = RouteInfo(delete_topic_with_registration=True)
    who = broker("c", "b", "a:1")
    tables.register(registration(who, ("b", "t0")))
    version = DataVersion(timestamp=2, counter=2)
    tables.register(registration(who, ("b", "t0"), piece=Piece(index=0, count=2), version=version))
    for number in range(3000):
        tables.register(registration(who, (f"lone{number}",), piece=Piece(), version=version))
        tables.delete_topic(f"lone{number}")
    [found] = tables._rounds._rounds.values()
    assert len(found.told) < 1100
    tables.register(registration(who, ("t1",), piece=Piece(index=1, count=2), version=version))
    assert set(tables.queues) == {"b", "t0", "t1"}
