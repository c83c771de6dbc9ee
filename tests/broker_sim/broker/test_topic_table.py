"""The topics of a broker: those of its first moment, those made by sends and by groups, versions and bounds."""

from __future__ import annotations

import pytest

from rocketpy.errors import BrokerError, InvalidParameterError, RemoteProtocolError
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.enums import TopicFilterType
from rocketpy.wire.lenient_json import parse_json
from rocketpy_broker_sim.broker.tables.topics import TopicTable
from rocketpy_broker_sim.config import BrokerConfig
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.support import BAD_NAMES, golden_file


def make(**settings: object) -> TopicTable:
    return TopicTable(BrokerConfig(broker_cluster_name="C", broker_name="b", **settings), MemoryStorage())  # type: ignore[arg-type]


def test_the_topics_of_the_first_moment_are_those_of_apache() -> None:
    config = BrokerConfig(broker_cluster_name="GoldenCluster", broker_name="golden-a")
    table = TopicTable(config, MemoryStorage())
    golden = parse_json(golden_file("5.3.3-clean", "topics.json"))["topicConfigTable"]
    ours = {name: topic.to_json() for name, topic in table.all().items()}
    assert ours.pop("rmq_sys_wheel_timer")["readQueueNums"] == 1  # the golden store is one without timers
    assert {name: golden[name] for name in ours} == ours
    assert {name for name in golden if not name.startswith(("GS_", "%"))} == set(ours)
    assert ours["BenchmarkTest"]["readQueueNums"] == 1024
    assert ours["TBW102"]["perm"] == 7


def test_settings_decide_about_the_topics_of_the_first_moment() -> None:
    table = make(auto_create_topic_enable=False, cluster_topic_enable=False, broker_topic_enable=False)
    assert "TBW102" not in table
    assert "RMQ_SYS_TRACE_TOPIC" not in table
    cluster, broker = table.get("C"), table.get("b")
    assert cluster is not None
    assert broker is not None
    assert (cluster.perm, broker.perm) == (1, 1)
    assert "RMQ_SYS_TRACE_TOPIC" in make(trace_topic_enable=True)
    assert make(default_topic_queue_nums=5).get("TBW102").write_queue_nums == 5  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("asked", "expected"), [(4, 4), (8, 8), (100, 8), (0, 0), (-1, 0), (2**31 - 1, 8), (-(2**31), 0)]
)
def test_a_topic_made_by_a_send_has_as_many_queues_as_asked_within_the_default(asked: int, expected: int) -> None:
    made = make().create_on_send("T", "TBW102", asked, 1)
    assert made is not None
    assert (made.read_queue_nums, made.write_queue_nums, made.perm, made.topic_sys_flag) == (expected, expected, 6, 1)


def test_a_topic_made_by_a_send_follows_its_model() -> None:
    table = make()
    table.put(TopicConfig(topic_name="M", write_queue_nums=3, perm=3, topic_filter_type=TopicFilterType.MULTI_TAG))
    made = table.create_on_send("T", "M", 16)
    assert made is not None
    assert (made.write_queue_nums, made.perm, made.topic_filter_type) == (3, 2, TopicFilterType.MULTI_TAG)
    assert table.create_on_send("T", "TBW102", 8) is made


@pytest.mark.parametrize("default_topic", ["NONE", "SELF_TEST_TOPIC", ""])
def test_a_send_makes_no_topic_without_a_model_that_may_be_copied(default_topic: str) -> None:
    table = make()
    before = table.data_version
    assert table.create_on_send("T", default_topic, 4) is None
    assert "T" not in table
    assert table.data_version == before


def test_a_send_makes_no_topic_when_that_is_switched_off_although_an_old_file_has_the_model() -> None:
    table = make(auto_create_topic_enable=False)
    table.put(TopicConfig(topic_name="TBW102", perm=7))
    assert table.create_on_send("T", "TBW102", 4) is None


def test_retry_topics_are_made_once_and_follow_the_order_flag() -> None:
    table = make()
    made = table.create_retry("%RETRY%G", 1)
    assert (made.read_queue_nums, made.write_queue_nums, made.perm, made.order) == (1, 1, 6, False)
    assert table.create_retry("%RETRY%G", 5) is made
    ordered = table.create_retry("%RETRY%G", 5, order=True)
    assert (ordered.order, ordered.read_queue_nums) == (True, 1)


def test_every_change_is_told_and_raises_the_version() -> None:
    table = make()
    told: list[str] = []
    woken: list[bool] = []
    table.subscribe(told.extend)
    table.on_change(lambda: woken.append(table.changed))
    counters = [table.data_version.counter]
    table.create_on_send("A", "TBW102", 4)
    counters.append(table.data_version.counter)
    table.put_all([TopicConfig(topic_name="B"), TopicConfig(topic_name="C1")])
    counters.append(table.data_version.counter)
    assert table.delete("A")
    counters.append(table.data_version.counter)
    assert not table.delete("A")
    table.touch()
    counters.append(table.data_version.counter)
    assert told == ["A", "B", "C1", "A"]
    assert counters == [0, 1, 2, 3, 4]
    assert woken == [True] * 4


@pytest.mark.parametrize("name", BAD_NAMES)
def test_threat_A1_no_bad_name_becomes_a_topic(name: str) -> None:
    table = make()
    before = dict(table.all())
    with pytest.raises(InvalidParameterError):
        table.create_on_send(name, "TBW102", 4)
    with pytest.raises(InvalidParameterError):
        table.create_retry(name, 1)
    with pytest.raises(InvalidParameterError):
        table.put_all([TopicConfig(topic_name="good"), TopicConfig(topic_name=name)])
    assert dict(table.all()) == before
    assert not table.changed


def test_threat_A8_the_number_of_topics_is_bounded() -> None:
    table = make(max_topics=len(make()) + 1)
    table.put(TopicConfig(topic_name="A"))
    said = f"holds {len(table)} topics, its own included, and may hold {len(table)}; 1 more cannot be added"
    for attempt in (lambda: table.create_on_send("B", "TBW102", 4), lambda: table.create_retry("%RETRY%G", 1)):
        with pytest.raises(BrokerError, match=said):
            attempt()
    table.put(TopicConfig(topic_name="A", perm=4))
    assert table.get("A").perm == 4  # type: ignore[union-attr]


def test_what_the_system_owns() -> None:
    table = make()
    for name in ("C", "b", "C_REPLY_TOPIC", "TBW102", "SCHEDULE_TOPIC_XXXX", "rmq_sys_anything", "BenchmarkTest"):
        assert table.is_system(name), name
    table.put(TopicConfig(topic_name="Orders"))
    assert not table.is_system("Orders")
    assert not table.is_system("%RETRY%G")


def test_a_store_of_another_version_gets_the_topics_that_it_lacks_under_a_new_version() -> None:
    storage = MemoryStorage()
    storage.write_bytes_atomic(
        "config/topics.json",
        b'{"dataVersion":{"counter":5,"timestamp":7},"topicConfigTable":{"Old":{"topicName":"Old","perm":4}}}',
    )
    table = TopicTable(BrokerConfig(), storage)
    table.load()
    assert table.get("Old").perm == 4  # type: ignore[union-attr]
    assert "SCHEDULE_TOPIC_XXXX" in table
    assert table.data_version.counter == 6


# --- one topic, as text and as JSON ----------------------------------------------------------------------


def test_A3_a_topic_goes_through_its_text_form() -> None:
    topic = TopicConfig(
        topic_name="T", read_queue_nums=2, write_queue_nums=3, perm=4, attributes={"+message.type": "FIFO"}
    )
    assert topic.to_text() == 'T 2 3 4 SINGLE_TAG {"+message.type":"FIFO"}'
    assert TopicConfig.from_text(topic.to_text()) == topic
    lost = TopicConfig(topic_name="T", topic_sys_flag=3, order=True)
    assert TopicConfig.from_text(lost.to_text()) == TopicConfig(topic_name="T")


def test_A3_older_forms_are_read() -> None:
    assert TopicConfig.from_text("T 8 8 6 SINGLE_TAG") == TopicConfig(
        topic_name="T", read_queue_nums=8, write_queue_nums=8
    )
    assert TopicConfig.from_text("T 8 8 6 MULTI_TAG {}").topic_filter_type is TopicFilterType.MULTI_TAG
    old = TopicConfig.decode(b'{"topicName":"T","perm":6,"readQueueNums":1,"writeQueueNums":1}')
    assert (old.attributes, old.order, old.topic_sys_flag) == ({}, False, 0)
    assert TopicConfig.decode(old.encode()) == old


@pytest.mark.parametrize("text", ["", "T", "T 1 1 6", "T x 1 6 SINGLE_TAG", "T 1 1 6 NO_TAG", "T 1 1 6 SINGLE_TAG {"])
def test_A3_what_is_no_topic_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        TopicConfig.from_text(text)
