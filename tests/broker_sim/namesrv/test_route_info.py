"""The tables of a name server: who lives, what they hold, what a client is told."""

from __future__ import annotations

import pytest

from rocketpy.wire.bodies.registration import TopicConfigAndMappingSerializeWrapper
from rocketpy.wire.bodies.route import QueueData
from rocketpy.wire.bodies.topics import DataVersion, TopicConfig, TopicQueueMappingInfo
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.namesrv import route_query
from rocketpy_broker_sim.namesrv.route_info import BrokerRegistration, Identity, Registered, RouteInfo

CLUSTER = "c1"


def identity(name="a", broker_id=0, address=None):
    return Identity(
        cluster=CLUSTER, broker_name=name, address=address or f"10.0.0.{broker_id}:{name}", broker_id=broker_id
    )


def registration(who, topics=("t1", "t2"), *, version=None, now=0.0, connection=None, acting=None, **fields):
    configs = {name: TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4) for name in topics}
    wrapper = TopicConfigAndMappingSerializeWrapper(
        topic_config_table=configs, data_version=version or DataVersion(timestamp=1, counter=1)
    )
    values = {"ha_address": f"ha-{who.broker_id}", "zone_name": None, "timeout_ms": None, "filter_servers": ()}
    return BrokerRegistration(
        identity=who, acting_master=acting, topics=wrapper, connection=connection, now=now, **(values | fields)
    )


@pytest.fixture
def tables():
    return RouteInfo()


def test_N3_route_shows_queues_and_addresses_with_slaves(tables):
    tables.register(registration(identity()))
    assert tables.register(registration(identity(broker_id=1))) == Registered("10.0.0.0:a", "ha-0")
    route = route_query.route_of(tables, "t1")
    assert [b.broker_addrs for b in route.broker_datas] == [{0: "10.0.0.0:a", 1: "10.0.0.1:a"}]
    [queue] = route.queue_datas
    assert (queue.broker_name, queue.read_queue_nums, queue.write_queue_nums, queue.perm) == ("a", 4, 4, 6)
    assert route_query.route_of(tables, "unknown") is None


def test_a_route_is_a_copy_that_the_caller_may_change(tables):
    tables.register(registration(identity()))
    route = route_query.route_of(tables, "t1")
    route.broker_datas[0].broker_addrs.clear()
    route.queue_datas[0].perm = 0
    again = route_query.route_of(tables, "t1")
    assert again.broker_datas[0].broker_addrs == {0: "10.0.0.0:a"}
    assert again.queue_datas[0].perm == 6


def test_N5_a_new_registration_adds_topics_and_a_changed_version_changes_them(tables):
    tables.register(registration(identity()))
    same = DataVersion(timestamp=1, counter=1)
    tables.register(registration(identity(), ("t1", "t2", "t3"), version=same))
    assert route_query.route_of(tables, "t3") is not None
    changed = registration(identity(), version=DataVersion(timestamp=2, counter=2))
    changed.topics.topic_config_table["t1"].write_queue_nums = 9
    assert tables.is_changed(identity().key, changed.topics.data_version)
    tables.register(changed)
    assert route_query.route_of(tables, "t1").queue_datas[0].write_queue_nums == 9
    assert not tables.is_changed(identity().key, changed.topics.data_version)


def test_N5_the_same_version_leaves_known_queues_alone(tables):
    tables.register(registration(identity()))
    again = registration(identity())
    again.topics.topic_config_table["t1"].write_queue_nums = 9
    tables.register(again)
    assert route_query.route_of(tables, "t1").queue_datas[0].write_queue_nums == 4


def test_N2_unregistering_the_last_of_a_name_removes_its_topics_and_cluster(tables):
    tables.register(registration(identity()))
    tables.register(registration(identity("b")))
    tables.unregister([identity()])
    assert [q.broker_name for q in route_query.route_of(tables, "t1").queue_datas] == ["b"]
    tables.unregister([identity("b"), identity("never-seen")])
    assert route_query.route_of(tables, "t1") is None
    assert not tables.clusters
    assert not tables.brokers
    assert not tables.live


def test_N2_unregistering_a_slave_keeps_the_master(tables):
    tables.register(registration(identity()))
    tables.register(registration(identity(broker_id=1)))
    tables.unregister([identity(broker_id=1)])
    assert route_query.route_of(tables, "t1").broker_datas[0].broker_addrs == {0: "10.0.0.0:a"}


def test_N2_an_old_broker_without_its_master_keeps_its_write_permission(tables):
    tables.register(registration(identity(), acting=None))
    tables.register(registration(identity(broker_id=1), acting=None))
    tables.unregister([identity()])
    assert route_query.route_of(tables, "t1").queue_datas[0].perm == 6


def test_N4_silence_expires_a_broker_after_its_own_timeout(tables):
    tables.register(registration(identity(), now=100.0))
    tables.register(registration(identity("b"), now=100.0, timeout_ms=10_000))
    assert tables.expired(110.0) == []
    assert tables.expired(110.1) == [identity("b")]
    tables.touch(identity("b").key, 115.0)
    assert tables.expired(120.0) == []
    assert tables.expired(220.1) == [identity(), identity("b")]


def test_N4_a_closed_connection_names_its_brokers(tables):
    link = object()
    tables.register(registration(identity(), connection=link))
    tables.register(registration(identity("b"), connection=object()))
    assert tables.of_connection(link) == [identity()]


def test_a_first_registration_with_a_single_topic_is_refused_and_leaves_nothing(tables):
    assert tables.register(registration(identity(), ("only",))) is None
    assert not tables.brokers
    assert not tables.live
    tables.register(registration(identity()))
    assert tables.register(registration(identity(), ("only",))) == Registered()
    assert route_query.route_of(tables, "only") is not None
    assert route_query.route_of(tables, "t1") is not None


def test_N6_a_master_moves_to_another_address_unless_its_state_is_older(tables):
    old = DataVersion(state_version=2, timestamp=1, counter=1)
    tables.register(registration(identity(address="x:1"), version=old))
    older = registration(identity(address="x:2"), version=DataVersion(state_version=1, timestamp=9, counter=9))
    assert tables.register(older) is None
    newer = registration(identity(address="x:3"), version=DataVersion(state_version=3, timestamp=1, counter=1))
    assert tables.register(newer) == Registered()
    assert route_query.route_of(tables, "t1").broker_datas[0].broker_addrs == {0: "x:3"}


def test_N6_who_claims_the_name_of_a_newer_broker_leaves_nothing_of_its_former_one(tables):
    """Its former name and topics would stand in routes for good, and ten thousand of them fill the table."""
    newest = DataVersion(state_version=2, timestamp=1, counter=1)
    tables.register(registration(identity(address="x:1"), version=newest, connection=1))
    own = identity("b", address="x:2")
    tables.register(registration(own, ("t3", "t4"), connection=2, filter_servers=("f",)))
    assert tables.register(registration(identity("a", address="x:2"), connection=2)) is None
    assert tables.brokers.keys() == {"a"}
    assert route_query.route_of(tables, "t3") is None
    assert not tables.filter_servers
    assert tables.clusters == {CLUSTER: {"a"}}
    assert not tables.of_connection(2)
    assert route_query.route_of(tables, "t1").broker_datas[0].broker_addrs == {0: "x:1"}


def test_N6_a_slave_that_becomes_master_leaves_its_old_id(tables):
    tables.register(registration(identity(broker_id=1, address="x:1")))
    tables.register(registration(identity(broker_id=0, address="x:1")))
    assert tables.brokers["a"].broker_addrs == {0: "x:1"}


def test_N6_a_prime_slave_acts_for_its_master_read_only(tables):
    tables.register(registration(identity(), acting=True))
    tables.register(registration(identity(broker_id=1), acting=True))
    tables.unregister([identity()])
    plain = route_query.route_of(tables, "t1")
    assert plain.broker_datas[0].broker_addrs == {1: "10.0.0.1:a"}
    assert plain.queue_datas[0].perm == 4
    acting = route_query.route_of(tables, "t1", acting_master=True)
    assert acting.broker_datas[0].broker_addrs == {0: "10.0.0.1:a"}


def test_N7_write_permission_is_wiped_and_given_back(tables):
    tables.register(registration(identity()))
    assert run_steps(tables.write_permission_steps("a", allowed=False)) == 2
    assert route_query.route_of(tables, "t1").queue_datas[0].perm == 4
    assert run_steps(tables.write_permission_steps("a", allowed=True)) == 2
    assert route_query.route_of(tables, "t1").queue_datas[0].perm == 6
    assert run_steps(tables.write_permission_steps("nobody", allowed=False)) == 0


def test_N8_a_topic_is_deleted_everywhere_or_in_one_cluster(tables):
    tables.register(registration(identity()))
    tables.delete_topic("t1", "another-cluster")
    assert route_query.route_of(tables, "t1") is not None
    tables.delete_topic("t1", CLUSTER)
    assert route_query.route_of(tables, "t1") is None
    tables.delete_topic("t2")
    assert route_query.route_of(tables, "t2") is None


def test_N8_a_full_registration_may_delete_what_it_leaves_out():
    tables = RouteInfo(delete_topic_with_registration=True)
    tables.register(registration(identity(), ("t1", "t2", "t3")))
    tables.register(registration(identity(), ("t1", "t2"), version=DataVersion(timestamp=5, counter=5)))
    assert route_query.route_of(tables, "t3") is None


def test_N9_lists_of_topics_brokers_and_clusters(tables):
    tables.register(registration(identity()))
    unit = registration(identity("b"), ("u1", "u2"))
    unit.topics.topic_config_table["u1"].topic_sys_flag = 3
    unit.topics.topic_config_table["u2"].topic_sys_flag = 2
    tables.register(unit)
    assert route_query.all_topics(tables).topic_list == {"t1", "t2", "u1", "u2"}
    assert sorted(route_query.names_of_cluster(tables, CLUSTER)) == ["t1", "t2", "u1", "u2"]
    assert list(route_query.names_of_cluster(tables, "x")) == []
    assert route_query.system_topics(tables).topic_list == {CLUSTER, "a", "b"}
    assert list(filter(None, route_query.names_by_flag(tables, have=1))) == ["u1"]
    assert list(filter(None, route_query.names_by_flag(tables, have=2, lack=1))) == ["u2"]
    info = route_query.cluster_info(tables)
    assert info.cluster_addr_table == {CLUSTER: {"a", "b"}}
    assert info.broker_addr_table["a"].broker_addrs == {0: "10.0.0.0:a"}
    assert route_query.member_group(tables, CLUSTER, "a").broker_addrs == {0: "10.0.0.0:a"}
    assert route_query.member_group(tables, CLUSTER, "zz").broker_addrs == {}


def test_filter_servers_travel_with_the_route(tables):
    tables.register(registration(identity(), filter_servers=("f:1",)))
    assert route_query.route_of(tables, "t1").filter_server_table == {"10.0.0.0:a": ["f:1"]}
    tables.register(registration(identity()))
    assert route_query.route_of(tables, "t1").filter_server_table == {}


def test_threat_L8_a_broker_that_changed_its_cluster_leaves_none_behind(tables):
    moved = Identity(cluster="c2", broker_name="a", address="10.0.0.0:a", broker_id=0)
    tables.register(registration(identity()))
    tables.register(registration(moved))
    tables.unregister([identity(), moved])
    assert (tables.clusters, tables.brokers, tables.live, tables.queues) == ({}, {}, {}, {})


def test_more_topics_or_brokers_than_the_bounds_are_refused(tables, monkeypatch):
    monkeypatch.setattr("rocketpy_broker_sim.namesrv.route_info.MAX_TOPICS", 3)
    monkeypatch.setattr("rocketpy_broker_sim.namesrv.route_info.MAX_BROKERS", 2)
    assert tables.register(registration(identity(), ("t1", "t2"))) == Registered()
    assert tables.register(registration(identity("b"), ("t3", "t4"))) is None
    assert tables.register(registration(identity("b"), ("t1", "t3"))) == Registered()
    assert tables.register(registration(identity("c"), ("t1", "t2"))) is None
    assert set(tables.brokers) == {"a", "b"}


def test_threat_L8_a_process_under_another_name_leaves_its_former_one(tables):
    for name in "abc":
        tables.register(registration(identity(name, address="10.0.0.0:1"), ("t1", f"of-{name}")))
    assert set(tables.brokers) == {"c"}
    assert set(tables.queues) == {"t1", "of-c"}
    assert [each.identity.broker_name for each in tables.live.values()] == ["c"]


def test_threat_A4_nobody_is_forgotten_by_his_address_under_a_foreign_name(tables):
    tables.register(registration(identity(), filter_servers=("f:1",), timeout_ms=1))
    tables.unregister([identity("zz", address=identity().address)])
    assert tables.expired(1.0) == [identity()]
    assert tables.filter_servers


def test_threat_L8_one_name_in_ever_new_clusters_is_refused_in_the_end(tables, monkeypatch):
    monkeypatch.setattr("rocketpy_broker_sim.namesrv.route_info.MAX_BROKERS", 2)
    for number in range(4):
        who = Identity(cluster=f"c{number}", broker_name="a", address="10.0.0.0:1", broker_id=0)
        tables.register(registration(who))
        tables.unregister([Identity(cluster=who.cluster, broker_name="zz", address=who.address, broker_id=0)])
    assert set(tables.clusters) == {"c0", "c1"}


def test_threat_L8_mappings_are_kept_of_a_brokers_own_topics_and_as_long_as_those(tables):
    def holding(who, *mappings):
        made = registration(who, ("t1", "t2"))
        for topic, name in mappings:
            made.topics.topic_queue_mapping_info_map[topic] = TopicQueueMappingInfo(topic=topic, bname=name)
        return made

    tables.register(holding(identity(), ("t1", "a"), ("t2", "b"), ("unknown", "a")))
    tables.register(holding(identity("b"), ("t1", "b")))
    assert {topic: set(each) for topic, each in tables.table.mappings.items()} == {"t1": {"a", "b"}}
    tables.unregister([identity()])
    assert {topic: set(each) for topic, each in tables.table.mappings.items()} == {"t1": {"b"}}
    tables.unregister([identity("b")])
    assert tables.table.mappings == {}


def test_N6_a_group_without_a_master_is_found_and_keeps_its_permissions_when_old(tables):
    tables.register(registration(identity(broker_id=1), acting=None))
    assert route_query.route_of(tables, "t1") is None
    assert tables.brokers["a"].broker_addrs == {1: "10.0.0.1:a"}
    tables.register(registration(identity(broker_id=2), acting=True))
    tables.register(registration(identity(broker_id=1), acting=True, version=DataVersion(timestamp=2, counter=2)))
    route = route_query.route_of(tables, "t1")
    assert route.broker_datas[0].broker_addrs == {1: "10.0.0.1:a", 2: "10.0.0.2:a"}
    assert route.queue_datas[0].perm == 4


def test_N6_a_returning_master_makes_its_queues_writable_again(tables):
    tables.register(registration(identity(), acting=True))
    tables.register(registration(identity(broker_id=1), acting=True))
    tables.unregister([identity()])
    assert route_query.route_of(tables, "t1").queue_datas[0].perm == 4
    tables.register(registration(identity(address="10.0.0.9:a"), acting=True))
    route = route_query.route_of(tables, "t1", acting_master=True)
    assert route.queue_datas[0].perm == 6
    assert route.broker_datas[0].broker_addrs == {0: "10.0.0.9:a", 1: "10.0.0.1:a"}


def test_N7_a_changed_registration_restores_the_permission_and_an_unchanged_one_does_not(tables):
    tables.register(registration(identity()))
    run_steps(tables.write_permission_steps("a", allowed=False))
    tables.register(registration(identity()))
    assert route_query.route_of(tables, "t1").queue_datas[0].perm == 4
    tables.register(registration(identity(), version=DataVersion(timestamp=2, counter=2)))
    assert route_query.route_of(tables, "t1").queue_datas[0].perm == 6


def test_N8_a_topic_is_registered_by_hand_at_brokers_that_are_known(tables, monkeypatch):
    tables.register(registration(identity()))
    queue = QueueData(broker_name="a", read_queue_nums=2, write_queue_nums=2, perm=6)
    assert not tables.register_topic("by-hand", {"a": queue, "zz": QueueData(broker_name="zz")})
    assert not tables.register_topic("by-hand", {})
    assert route_query.route_of(tables, "by-hand") is None
    assert tables.register_topic("by-hand", {"a": queue})
    assert route_query.route_of(tables, "by-hand").queue_datas == [queue]
    monkeypatch.setattr("rocketpy_broker_sim.namesrv.route_info.MAX_TOPICS", 3)
    assert not tables.register_topic("one-too-many", {"a": queue})
    assert tables.register_topic("t1", {"a": queue})


def test_N8_a_topic_that_was_deleted_at_one_broker_stays_at_the_others(tables):
    other = Identity(cluster="c2", broker_name="b", address="10.0.0.0:b", broker_id=0)
    tables.register(registration(identity()))
    tables.register(registration(other))
    tables.delete_topic("t1", "c2")
    assert [queue.broker_name for queue in route_query.route_of(tables, "t1").queue_datas] == ["a"]


def test_N8_a_deleted_topic_comes_back_with_the_next_registration_that_holds_it(tables):
    tables.register(registration(identity()))
    tables.delete_topic("t1")
    tables.register(registration(identity()))
    assert route_query.route_of(tables, "t1") is not None


def test_N14_a_route_is_cut_to_the_brokers_of_one_zone(tables):
    tables.register(registration(identity(), zone_name="east", filter_servers=("f:1",)))
    tables.register(registration(identity("b"), zone_name="West", filter_servers=("f:2",)))
    route = route_query.route_of(tables, "t1")
    assert route_query.near(route, " ") is route
    near = route_query.near(route, "west")
    assert [broker.broker_name for broker in near.broker_datas] == ["b"]
    assert [queue.broker_name for queue in near.queue_datas] == ["b"]
    assert near.filter_server_table == {"10.0.0.0:b": ["f:2"]}


def test_N14_a_broker_of_another_zone_stays_while_its_master_is_away(tables):
    tables.register(registration(identity(), zone_name="east"))
    tables.register(registration(identity(broker_id=1), zone_name="east"))
    tables.unregister([identity()])
    near = route_query.near(route_query.route_of(tables, "t1"), "west")
    assert [broker.broker_addrs for broker in near.broker_datas] == [{1: "10.0.0.1:a"}]
