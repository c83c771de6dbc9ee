"""Route data to queues: who may be written and read, ordered and static topics, why there is nothing."""

from __future__ import annotations

import pytest

from rocketpy.client.routes.publish_info import NoQueue, TopicRoute, default_route, map_address, topic_route
from rocketpy.errors import ConfigError, RemoteProtocolError
from rocketpy.message import MessageQueue
from rocketpy.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketpy.wire.bodies.topics import TopicQueueMappingInfo


def broker(name: str, **addresses: str) -> BrokerData:
    """``broker("a", master="h:1", slave1="h:2")``."""
    ids = {0 if key == "master" else int(key.removeprefix("slave")): value for key, value in addresses.items()}
    return BrokerData(cluster="c", broker_name=name, broker_addrs=ids)


def queues(name: str, *, read: int = 4, write: int = 4, perm: int = 6) -> QueueData:
    return QueueData(broker_name=name, read_queue_nums=read, write_queue_nums=write, perm=perm)


def route(
    *parts: BrokerData | QueueData,
    order: str | None = None,
    address_map: dict[str, str] | None = None,
    **static: TopicQueueMappingInfo,
) -> TopicRoute:
    data = TopicRouteData(
        broker_datas=[part for part in parts if isinstance(part, BrokerData)],
        queue_datas=[part for part in parts if isinstance(part, QueueData)],
        order_topic_conf=order,
        topic_queue_mapping_by_broker=static or None,
    )
    return topic_route("T", data, address_map=address_map)


def names(found: tuple[MessageQueue, ...]) -> list[str]:
    return [f"{queue.broker_name}:{queue.queue_id}" for queue in found]


def test_S19_queues_stand_by_broker_name_then_number() -> None:
    found = route(
        broker("b", master="h:2"), broker("a", master="h:1"), queues("b", read=3, write=2), queues("a", read=1, write=2)
    )
    assert names(found.publish.queues) == ["a:0", "a:1", "b:0", "b:1"]
    assert names(found.subscribe) == ["a:0", "b:0", "b:1", "b:2"]
    assert not found.publish.order_topic
    assert (found.not_writable, found.not_readable) == (None, None)


def test_S19_a_broker_without_master_is_read_and_not_written() -> None:
    found = route(broker("a", slave1="h:1"), queues("a"))
    assert found.publish.queues == ()
    assert found.not_writable is NoQueue.NO_MASTER
    assert len(found.subscribe) == 4
    assert found.not_readable is None


def test_S19_queues_of_a_broker_that_the_route_lacks_are_not_written() -> None:
    found = route(broker("a", master="h:1"), queues("a", write=1), queues("ghost"))
    assert names(found.publish.queues) == ["a:0"]


@pytest.mark.parametrize(
    ("perm", "writable", "readable"),
    [(6, True, True), (7, True, True), (4, False, True), (2, True, False), (0, False, False)],
)
def test_S19_permissions_decide(perm: int, writable: bool, readable: bool) -> None:
    found = route(broker("a", master="h:1"), queues("a", perm=perm))
    assert bool(found.publish.queues) is writable
    assert bool(found.subscribe) is readable
    assert found.not_writable is (None if writable else NoQueue.PERMISSION)
    assert found.not_readable is (None if readable else NoQueue.PERMISSION)


def test_N11_order_configuration_overrides_the_queues_and_keeps_its_order() -> None:
    found = route(broker("b", master="h:2"), broker("a", master="h:1"), queues("a"), queues("b"), order="b:2;a:1")
    assert names(found.publish.queues) == ["b:0", "b:1", "a:0"]
    assert found.publish.order_topic
    assert len(found.subscribe) == 8, "reading follows the queues, not the configuration"


def test_N11_ordered_queues_stay_when_their_broker_is_away() -> None:
    found = route(broker("a", master="h:1"), queues("a"), order="a:1;b:1;")
    assert names(found.publish.queues) == ["a:0", "b:0"]
    assert found.not_writable is None


def test_N11_an_empty_order_configuration_is_none() -> None:
    found = route(broker("a", master="h:1"), queues("a", write=1), order="")
    assert names(found.publish.queues) == ["a:0"]
    assert not found.publish.order_topic


@pytest.mark.parametrize("conf", ["a", "a:", ":4", "a:x", "a:-1", "a:99999999999", "a:1;b"])
def test_N11_a_damaged_order_configuration_is_a_typed_error(conf: str) -> None:
    with pytest.raises(RemoteProtocolError, match="ordered-topic configuration"):
        route(broker("a", master="h:1"), queues("a"), order=conf)


@pytest.mark.parametrize(
    "conf", ["a:0000009999999999", "a:0000065537", "a:65536;b:1", ";".join(["a:65536"] * 9), "a:" + "9" * 50]
)
def test_N11_an_order_configuration_with_too_many_queues_is_a_typed_error(conf: str) -> None:
    with pytest.raises(RemoteProtocolError, match="over 65536 queues"):
        route(broker("a", master="h:1"), queues("a"), order=conf)


def test_N11_an_order_configuration_may_have_65536_queues() -> None:
    found = route(broker("a", master="h:1"), queues("a"), order="a:065535;b:1")
    assert len(found.publish.queues) == 65_536


def mapping(
    name: str, ids: dict[int, int], *, total: int, epoch: int = 1, scope: str = "__global__"
) -> TopicQueueMappingInfo:
    return TopicQueueMappingInfo(topic="T", scope=scope, total_queues=total, bname=name, epoch=epoch, curr_id_map=ids)


def test_S19_a_static_topic_has_logical_queues_whose_holder_is_looked_up() -> None:
    found = route(
        broker("a", master="h:1"),
        broker("b", master="h:2"),
        a=mapping("a", {0: 0, 2: 1}, total=4),
        b=mapping("b", {1: 0}, total=4),
    )
    assert names(found.publish.queues) == [f"__syslo__global__:{number}" for number in range(4)]
    assert found.subscribe == found.publish.queues
    assert [found.endpoints[queue] for queue in found.publish.queues] == ["a", "b", "a", "__syslo__none__"]
    assert found.not_writable is None


def test_S19_of_two_holders_of_a_static_queue_the_newer_counts() -> None:
    found = route(
        broker("a", master="h:1"),
        a=mapping("a", {0: 0}, total=1, epoch=2),
        b=mapping("b", {0: 0}, total=1, epoch=1),
    )
    assert list(found.endpoints.values()) == ["a"]


def test_S19_static_topics_of_another_scope_have_a_name_of_their_own() -> None:
    found = route(broker("a", master="h:1"), a=mapping("a", {0: 0}, total=1, scope="east"))
    assert names(found.publish.queues) == ["__syslo__east:0"]


def test_addresses_that_cannot_be_dialled_are_left_out_and_told() -> None:
    found = route(broker("a", master="::", slave1="h:0"), queues("a"))
    assert found.brokers == {}
    assert found.not_writable is NoQueue.NO_ADDRESS
    assert found.not_readable is NoQueue.NO_ADDRESS
    assert found.addresses == ("::", "h:0")


def test_a_slave_with_an_address_is_enough_to_read_but_not_to_write() -> None:
    found = route(broker("a", master="h:70000", slave1="h:1"), queues("a"))
    assert found.not_writable is NoQueue.NO_ADDRESS
    assert found.not_readable is None
    assert found.brokers == {"a": {1: "h:1"}}


@pytest.mark.parametrize(
    ("rewrite", "expected"),
    [
        ({}, "172.17.0.2:10911"),
        ({"172.17.0.2": "localhost"}, "localhost:10911"),
        ({"172.17.0.2:10911": "localhost:20911"}, "localhost:20911"),
        ({"172.17.0.2:10912": "localhost:20911"}, "172.17.0.2:10911"),
    ],
)
def test_address_map_rewrites_hosts_and_whole_addresses(rewrite: dict[str, str], expected: str) -> None:
    assert map_address("172.17.0.2:10911", rewrite) == expected
    found = route(broker("a", master="172.17.0.2:10911"), queues("a"), address_map=rewrite)
    assert found.brokers["a"][0] == expected


def test_address_map_cannot_make_an_address_of_anything() -> None:
    with pytest.raises(ConfigError):
        map_address("a:1", {"a:1": "nowhere"})


def test_a_topic_may_have_65536_queues_to_read_and_as_many_to_write() -> None:
    found = route(broker("a", master="h:1"), queues("a", read=65_536, write=65_536, perm=0))
    assert found.not_writable is NoQueue.PERMISSION


@pytest.mark.parametrize(
    "damaged",
    [
        queues("a", write=10**6),
        queues("a", read=2**31 - 1),
        queues("a", read=-1),
        queues("a", read=65_536, write=65_537, perm=0),
    ],
)
def test_impossible_numbers_of_queues_are_a_typed_error(damaged: QueueData) -> None:
    with pytest.raises(RemoteProtocolError, match="impossible number"):
        route(broker("a", master="h:1"), damaged)


@pytest.mark.parametrize("total", [10**6, -1])
def test_impossible_numbers_of_logical_queues_are_a_typed_error(total: int) -> None:
    with pytest.raises(RemoteProtocolError, match="impossible number"):
        route(a=mapping("a", {}, total=total))


def test_the_scopes_of_static_topics_share_the_bound_of_their_queues() -> None:
    with pytest.raises(RemoteProtocolError, match="impossible number"):
        route(**{name: mapping(name, {}, total=65_536, scope=name) for name in "abc"})
    found = route(**{name: mapping(name, {}, total=65_536) for name in "abc"})
    assert len(found.publish.queues) == 65_536


def test_an_empty_route_has_nothing_and_says_so() -> None:
    found = route()
    assert found.not_writable is NoQueue.PERMISSION
    assert found.publish.queues == ()


def test_S19_the_route_of_a_topic_to_be_created_has_fewer_queues() -> None:
    data = TopicRouteData(
        broker_datas=[broker("a", master="h:1"), broker("b", master="h:2")],
        queue_datas=[queues("a", read=8, write=8, perm=7), queues("b", read=2, write=8, perm=7)],
    )
    found = topic_route("New", default_route(data, 4))
    assert names(found.publish.queues) == ["a:0", "a:1", "a:2", "a:3", "b:0", "b:1"]
    assert {queue.topic for queue in found.publish.queues} == {"New"}
    assert data.queue_datas[0].write_queue_nums == 8, "what came in stays as it is"


def test_equal_answers_make_equal_routes() -> None:
    def again(address: str = "h:1") -> TopicRoute:
        return route(broker("a", master=address), queues("a"))

    assert again() == again()
    assert again() != again("h:2")
