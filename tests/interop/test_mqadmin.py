"""Apache's command `mqadmin` on servers of both kinds: our broker at Apache's name server, Apache's broker at ours."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import Message
from tests.interop import probe
from tests.interop.mixed import APACHES, OURS, QUEUES
from tests.interop.settings import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.drivers import JavaAdmin
    from tests.interop.mixed import Mixed

pytestmark = pytest.mark.interop

QUERY_CONSUMER_OFFSET, GET_MAX_OFFSET, GET_ALL_GROUPS, GET_GROUP = 14, 30, 201, 352


@pytest.fixture
def admin(admin_at: Callable[[str], JavaAdmin], mixed: Mixed) -> JavaAdmin:
    return admin_at(mixed.our_namesrv)


def permissions(name_server: str, topic: str) -> dict[str, tuple[int, int]]:
    """Permission and number of queues to write, by broker."""
    found = probe.route(name_server, topic)
    return {each["brokerName"]: (each["perm"], each["writeQueueNums"]) for each in found["queueDatas"]} if found else {}


def wait_permissions(mixed: Mixed, topic: str, expected: dict[str, tuple[int, int]]) -> None:
    for each in mixed.name_servers:
        probe.eventually(
            lambda name_server=each: permissions(name_server, topic) == expected or None, f"{expected} at {each}", 20.0
        )


def wait_permission(mixed: Mixed, topic: str, expected: int) -> None:
    """The same for our broker alone."""
    for each in mixed.name_servers:
        probe.eventually(
            lambda name_server=each: permissions(name_server, topic)[OURS][0] == expected or None,
            f"permission {expected} at {each}",
            20.0,
        )


def test_a_topic_made_at_our_broker_appears_at_both_name_servers(
    mixed: Mixed, admin: JavaAdmin, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("Commanded")
    said = admin.mqadmin("updateTopic", n=mixed.apache_namesrv, b=mixed.our_broker, t=topic, r=3, w=3, p=6)
    assert f"create topic to {mixed.our_broker} success" in said
    wait_permissions(mixed, topic, {OURS: (6, 3)})
    admin.mqadmin("updateTopic", n=mixed.apache_namesrv, b=mixed.our_broker, t=topic, r=5, w=4, p=4)
    wait_permissions(mixed, topic, {OURS: (4, 4)})
    assert topic in admin.mqadmin("topicList", n=mixed.our_namesrv).split()
    assert f'"brokerName":"{OURS}"' in re.sub(r"\s", "", admin.mqadmin("topicRoute", n=mixed.apache_namesrv, t=topic))


def test_a_topic_comes_to_all_brokers_of_a_cluster_and_goes(
    mixed: Mixed, admin: JavaAdmin, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("Commanded")
    for number, each in enumerate(mixed.name_servers, 1):
        said = admin.mqadmin("updateTopic", n=each, c=CLUSTER, t=topic, r=number, w=number)
        assert {mixed.apache_broker, mixed.our_broker} == set(re.findall(r"create topic to (\S+) success", said))
        wait_permissions(mixed, topic, {APACHES: (6, number), OURS: (6, number)})
    said = admin.mqadmin("deleteTopic", n=";".join(mixed.name_servers), c=CLUSTER, t=topic)
    assert f"delete topic [{topic}] from NameServer success." in said
    wait_permissions(mixed, topic, {})
    for broker in (mixed.apache_broker, mixed.our_broker):
        assert probe.call(broker, GET_MAX_OFFSET, {"topic": topic, "queueId": 0}).fields["offset"] == "0"


def test_the_list_of_the_cluster_is_the_same_at_both_name_servers(mixed: Mixed, admin: JavaAdmin) -> None:
    theirs, ours = (rows(admin.mqadmin("clusterList", n=each)) for each in mixed.name_servers)
    assert ours == theirs
    assert {name: row[:2] for name, row in ours.items()} == {
        APACHES: ("0", mixed.apache_broker),
        OURS: ("0", mixed.our_broker),
    }
    assert ours[OURS][2] == "V5_3_3"


def test_the_list_of_the_cluster_has_the_rates_of_our_broker(
    mixed: Mixed, admin: JavaAdmin, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("Rates")
    mixed.create_topic(topic)
    with rocketpy.sync.Producer(fresh_name("p"), namesrv=mixed.our_namesrv) as producer:
        for _ in range(200):
            producer.send(Message(topic, b"x"))

    def rate() -> float | None:
        listed = admin.mqadmin("clusterList", n=mixed.our_namesrv)
        line = next(line for line in listed.splitlines() if line.startswith(CLUSTER) and OURS in line)
        found = re.search(r"\s(\d+\.\d\d)\(", line)
        return float(found[1]) if found and float(found[1]) > 0 else None

    assert probe.eventually(rate, "a rate of puts in the list of the cluster", 20.0)


def test_the_state_of_our_broker_has_what_that_of_theirs_has(mixed: Mixed, admin: JavaAdmin) -> None:
    theirs, ours = (
        status(admin.mqadmin("brokerStatus", n=each, b=broker))
        for each, broker in zip(mixed.name_servers, (mixed.apache_broker, mixed.our_broker), strict=True)
    )
    missing = {name for name in theirs.keys() - ours.keys() if not name.startswith("commitLogDiskRatio_")}
    assert missing == set()
    assert ours["runningFlags"] == "NONE"
    assert re.fullmatch(r"(\S+:\d+ ){12}\[10s~\]:\d+", ours["putMessageDistributeTime"].strip())
    assert re.match(r"Total : \S+ GiB, Free : \S+ GiB\.", ours["commitLogDirCapacity"])
    for name in ("putTps", "getFoundTps", "getMissTps", "getTransferredTps"):
        assert len([float(rate) for rate in ours[name].split()]) == 3


def status(listed: str) -> dict[str, str]:
    """What a broker tells of itself."""
    found = (line.partition(":") for line in listed.splitlines() if re.match(r"\w+ *:", line))
    return {name.strip(): value.strip() for name, _, value in found}


def rows(listed: str) -> dict[str, tuple[str, ...]]:
    """Id, address and version of the brokers by name."""
    found = [line.split() for line in listed.splitlines() if line.startswith(CLUSTER)]
    return {row[1]: tuple(row[2:5]) for row in found}


def test_a_broker_whose_write_permission_is_wiped_gets_no_messages_until_it_is_restored(
    mixed: Mixed, admin: JavaAdmin, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("Wiped")
    mixed.create_topic(topic)
    for name_server, wiped, other in ((mixed.apache_namesrv, OURS, APACHES), (mixed.our_namesrv, APACHES, OURS)):
        said = admin.mqadmin("wipeWritePerm", n=name_server, b=wiped)
        assert re.search(rf"wipe write perm of broker\[{wiped}\] in name server\[{name_server}\] OK, \d+", said)
        assert permissions(name_server, topic) == {wiped: (4, 2), other: (6, 2)}
        assert reached(name_server, topic) == {other}
        said = admin.mqadmin("addWritePerm", n=name_server, b=wiped)
        assert re.search(rf"add write perm of broker\[{wiped}\] in name server\[{name_server}\] OK, \d+", said)
        assert reached(name_server, topic) == {wiped, other}


def reached(name_server: str, topic: str) -> set[str]:
    """The brokers that get the messages of a producer of ours."""
    with rocketpy.sync.Producer("wiped", namesrv=name_server, send_timeout=10.0) as producer:
        return {producer.send(Message(topic, b"x")).queue.broker_name for _ in range(4)}


def test_pairs_and_settings_of_name_servers_are_commanded(mixed: Mixed, admin: JavaAdmin) -> None:
    both = ";".join(mixed.name_servers)
    assert "success" in admin.mqadmin("updateKvConfig", n=both, s="commanded", k="name", v="größe")
    pair = {"namespace": "commanded", "key": "name"}
    answers = [probe.call(each, 101, pair) for each in mixed.name_servers]
    assert [each.fields.get("value") for each in answers] == ["größe"] * 2
    assert "success" in admin.mqadmin("deleteKvConfig", n=both, s="commanded", k="name")
    assert [probe.call(each, 101, pair).code for each in mixed.name_servers] == [22, 22]
    assert "success" in admin.mqadmin("updateNamesrvConfig", n=both, k="orderMessageEnable", v="true")
    for each in mixed.name_servers:
        assert re.search(r"orderMessageEnable\s*=\s*true\b", admin.mqadmin("getNamesrvConfig", n=each))


# --- brokers -------------------------------------------------------------------------------------------


def test_a_group_is_made_at_all_brokers_and_goes(
    mixed: Mixed, admin: JavaAdmin, fresh_name: Callable[[str], str]
) -> None:
    group = fresh_name("commanded")
    said = admin.mqadmin("updateSubGroup", n=mixed.our_namesrv, c=CLUSTER, g=group, r=5)
    assert {mixed.apache_broker, mixed.our_broker} == set(
        re.findall(r"create subscription group to (\S+) success", said)
    )
    assert probe.call(mixed.our_broker, GET_GROUP, {"group": group}).json()["retryMaxTimes"] == 5
    admin.mqadmin("deleteSubGroup", n=mixed.our_namesrv, c=CLUSTER, g=group)
    groups = probe.call(mixed.our_broker, GET_ALL_GROUPS).json()["subscriptionGroupTable"]
    assert group not in groups


@pytest.mark.one_line("5.3.3", "brokers of 4.x set offsets through the members of a group only")
def test_the_offsets_of_a_group_are_set_at_all_brokers(
    mixed: Mixed, admin: JavaAdmin, fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Commanded"), fresh_name("commanded")
    mixed.create_topic(topic)
    with rocketpy.sync.Producer("commanded", namesrv=mixed.our_namesrv, send_timeout=10.0) as producer:
        for queue in producer.queues(topic):
            producer.send(Message(topic, b"x"), queue=queue)
    admin.mqadmin("updateSubGroup", n=mixed.our_namesrv, c=CLUSTER, g=group)
    said = admin.mqadmin("resetOffsetByTime", n=mixed.our_namesrv, g=group, t=topic, s=-1)
    assert set(re.findall(r"^(\S+)\s+\d\s+1\s*$", said, re.MULTILINE)) == {APACHES, OURS}
    for broker in (mixed.apache_broker, mixed.our_broker):
        for queue_id in range(QUEUES):
            asked = {"consumerGroup": group, "topic": topic, "queueId": queue_id}
            assert probe.call(broker, QUERY_CONSUMER_OFFSET, asked).fields["offset"] == "1"


def test_our_brokers_settings_and_state_are_read_and_changed(
    mixed: Mixed, admin: JavaAdmin, fresh_name: Callable[[str], str]
) -> None:
    topic, ours = fresh_name("Commanded"), {"n": mixed.apache_namesrv, "b": mixed.our_broker}
    mixed.create_topic(topic)
    assert "update topic perm from 6 to 4" in admin.mqadmin("updateTopicPerm", **ours, t=topic, p=4)
    wait_permissions(mixed, topic, {APACHES: (6, QUEUES), OURS: (4, QUEUES)})
    assert "success" in admin.mqadmin("updateBrokerConfig", **ours, k="brokerPermission", v=4)
    wait_permission(mixed, "TBW102", 4)
    assert re.search(r"brokerPermission\s*=\s*4\b", admin.mqadmin("getBrokerConfig", **ours))
    assert "success" in admin.mqadmin("updateBrokerConfig", **ours, k="brokerPermission", v=6)
    wait_permission(mixed, "TBW102", 7)
    assert re.search(r"brokerVersionDesc\s*: V5_3_3\b", admin.mqadmin("brokerStatus", **ours))
