"""Files of Apache's as they are, keywords, and what is refused by name."""

from __future__ import annotations

import pytest

from rocketpy.errors import ConfigError
from rocketpy_broker_sim.config import (
    BrokerRole,
    FlushDiskType,
    MessageStoreConfig,
    MetricsExporterType,
    as_properties,
    broker_config,
    format_properties,
    namesrv_config,
    parse_properties,
    read_broker_properties,
    read_namesrv_properties,
)
from rocketpy_broker_sim.config.refused import BROKER_REFUSED

STOCK = """\
# Licensed to somebody
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
"""


def test_the_stock_broker_conf_starts_unchanged() -> None:
    config, warnings = read_broker_properties(STOCK)
    assert (config.broker_cluster_name, config.broker_name, config.broker_id) == ("DefaultCluster", "broker-a", 0)
    assert config.store.broker_role is BrokerRole.ASYNC_MASTER
    assert config.store.flush_disk_type is FlushDiskType.ASYNC_FLUSH
    assert (config.server.bind_address, config.server.listen_port) == ("0.0.0.0", 10911)
    assert len(warnings) == 1
    assert "bindAddress" in warnings[0]


def test_a_bind_address_of_this_machine_warns_of_nothing() -> None:
    config, warnings = read_broker_properties("bindAddress=127.0.0.1\nlistenPort=0\nbrokerIP1=127.0.0.1")
    assert warnings == []
    assert (config.server.listen_port, config.broker_ip1) == (0, "127.0.0.1")


def test_the_irregular_lane_keys_are_taken_as_they_are() -> None:
    text = """
    sendMessageThreadPoolNums=1
    sendThreadPoolQueueCapacity=2
    processReplyMessageThreadPoolNums=3
    replyThreadPoolQueueCapacity=4
    endTransactionThreadPoolNums=5
    endTransactionPoolQueueCapacity=6
    clientManageThreadPoolNums=7
    clientManagerThreadPoolQueueCapacity=8
    waitTimeMillsInSendQueue=9
    waitTimeMillsInPullQueue=10
    waitTimeMillsInLitePullQueue=11
    waitTimeMillsInHeartbeatQueue=12
    waitTimeMillsInTransactionQueue=13
    waitTimeMillsInAckQueue=14
    waitTimeMillsInAdminBrokerQueue=15
    bindAddress=127.0.0.1
    """
    config, warnings = read_broker_properties(text)
    assert warnings == []
    assert [
        config.send_message_thread_pool_nums,
        config.send_thread_pool_queue_capacity,
        config.process_reply_message_thread_pool_nums,
        config.reply_thread_pool_queue_capacity,
        config.end_transaction_thread_pool_nums,
        config.end_transaction_pool_queue_capacity,
        config.client_manage_thread_pool_nums,
        config.client_manager_thread_pool_queue_capacity,
        config.wait_time_mills_in_send_queue,
        config.wait_time_mills_in_pull_queue,
        config.wait_time_mills_in_lite_pull_queue,
        config.wait_time_mills_in_heartbeat_queue,
        config.wait_time_mills_in_transaction_queue,
        config.wait_time_mills_in_ack_queue,
        config.wait_time_mills_in_admin_broker_queue,
    ] == list(range(1, 16))


def test_the_last_of_a_doubled_key_wins() -> None:
    config, _ = read_broker_properties("brokerName=first\nbrokerName=last\n")
    assert config.broker_name == "last"


def test_an_unknown_key_warns_by_name_and_a_known_one_without_effect_does_not() -> None:
    _, warnings = read_broker_properties("brokerNmae=x\ntransientStorePoolEnable=true\nbindAddress=127.0.0.1")
    assert len(warnings) == 1
    assert "brokerNmae" in warnings[0]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("enableDLegerCommitLog=true", "enableDLegerCommitLog"),
        ("enableControllerMode=true", "enableControllerMode"),
        ("storeType=defaultRocksDB", "storeType"),
        ("proxyMode=LOCAL", "proxyMode"),
        ("aclEnable=true", "aclEnable"),
        ("authenticationEnabled=TRUE", "authenticationEnabled"),
        ("brokerRole=SLAVE", "SLAVE"),
        ("brokerId=1", "brokerId"),
        ("messageStorePlugIn=org.example.Store", "messageStorePlugIn"),
        ("useTLS=true", "useTLS"),
        ("enableLmq=true", "enableLmq"),
        ("inSyncReplicas=2", "inSyncReplicas"),
        ("fetchNamesrvAddrByAddressServer=true", "namesrvAddr=host:9876"),
        ("readOnlyCommitLogStorePaths=/a", "readOnlyCommitLogStorePaths"),
        ("storePathCommitLog=/a,/b", "storePathCommitLog"),
    ],
)
def test_what_is_not_here_is_refused_by_name(line: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        read_broker_properties(line)


@pytest.mark.parametrize("key", sorted(BROKER_REFUSED))
def test_a_refusal_names_the_key_the_value_and_what_to_do(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"^broker\.conf, line 2: {key}=17: .* is not available here; \w+"):
        read_broker_properties(f"# a broker\n{key}=17", "broker.conf")
    config, _ = read_broker_properties(f"{key}=")
    assert config.broker_id == 0


def test_switched_off_it_is_no_matter() -> None:
    config, _ = read_broker_properties("enableDLegerCommitLog=false\nenableControllerMode=false\nstoreType=default")
    assert config.broker_id == 0


def test_a_name_server_with_a_controller_inside_is_refused() -> None:
    with pytest.raises(ConfigError, match="enableControllerInNamesrv"):
        read_namesrv_properties("enableControllerInNamesrv = true")


def test_a_name_server_file() -> None:
    config, warnings = read_namesrv_properties(
        "listenPort=19876\nbindAddress=127.0.0.1\norderMessageEnable=true\nfoo=1"
    )
    assert (config.server.listen_port, config.order_message_enable) == (19876, True)
    assert len(warnings) == 1
    assert "'foo'" in warnings[0]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("listenPort=many", "not a whole number"),
        ("listenPort=65536", "it must be at most 65535"),
        ("listenPort=1_000", "not a whole number"),
        ("autoCreateTopicEnable=yes", "not true or false"),
        ("flushDiskType=SOMETIMES", "not one of ASYNC_FLUSH, SYNC_FLUSH"),
        ("maxMessageSize=0", "it must be at least 1"),
        ("sendMessageThreadPoolNums=0", "it must be at least 1"),
        ("brokerPermission=8", "it must be at most 7"),
        ("transientStorePoolSize=1", "it must be at least 2"),
        ("fileReservedTime=-1", "it must be at least 0"),
        ("storePathRootDir=", "may not be empty"),
        ("storePathRootDir=a\\u0000b", "control characters"),
        ("brokerName=a\\nb", "line ends"),
        ("brokerIP1=\\u2028", "line ends"),
    ],
)
def test_a_value_that_cannot_be_used_names_file_line_and_key(line: str, says: str) -> None:
    key = line.partition("=")[0]
    with pytest.raises(ConfigError, match=f"conf/broker.conf, line 3: {key}=.*{says}"):
        read_broker_properties(f"# one\n\n{line}\n", "conf/broker.conf")


def test_a_warning_names_the_line_and_the_key_that_was_meant() -> None:
    _, warnings = read_broker_properties("bindAddress=127.0.0.1\nbrokerNmae=x\n\nwhatever=1", "b.conf")
    assert warnings == [
        "b.conf, line 2: unknown key 'brokerNmae' is ignored: did you mean brokerName?",
        "b.conf, line 4: unknown key 'whatever' is ignored: no release from 4.9.7 to 5.3.3 has it",
    ]


@pytest.mark.slow
def test_a_file_of_another_kind_is_said_to_be_one_in_few_words() -> None:
    _, warnings = read_namesrv_properties("bindAddress=::1\n" + "".join(f"line{n}: text\n" for n in range(100_000)))
    assert len(warnings) == 21
    assert warnings[-1] == "99980 more unknown keys are ignored: is this a configuration file?"


def test_keywords_reach_every_part() -> None:
    config = broker_config(
        broker_name="b", flush_disk_type="Sync_flush", listen_port=0, max_message_size=10, memory_size="7"
    )
    assert config.store.memory_size == 7
    assert (config.broker_name, config.server.listen_port, config.store.max_message_size) == ("b", 0, 10)
    assert config.store.flush_disk_type is FlushDiskType.SYNC_FLUSH
    assert namesrv_config(listen_port=1, kv_config_path="x").kv_config_path == "x"


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("PROM", MetricsExporterType.PROM, ""),
        ("prom", MetricsExporterType.PROM, ""),
        ("2", MetricsExporterType.PROM, ""),
        ("DISABLE", MetricsExporterType.DISABLE, ""),
        ("1", MetricsExporterType.OTLP_GRPC, "metricsExporterType=OTLP_GRPC exports nothing here"),
        ("LOG", MetricsExporterType.LOG, "metricsExporterType=LOG exports nothing here"),
    ],
)
def test_the_type_of_metrics_has_a_name_or_a_number_as_in_java(
    text: str, kind: MetricsExporterType, words: str
) -> None:
    lines = f"bindAddress=127.0.0.1\nmetricsExporterType={text}\nmetricsPromExporterPort=7000"
    for config, warnings in (read_broker_properties(lines), read_namesrv_properties(lines)):
        assert config.metrics.metrics_exporter_type is kind
        assert config.metrics.metrics_prom_exporter_port == 7000
        assert [words in warning for warning in warnings] == [True] * bool(words)


def test_metrics_that_everybody_can_read_are_warned_of() -> None:
    lines = "bindAddress=127.0.0.1\nmetricsExporterType=PROM\nmetricsPromExporterHost=0.0.0.0"
    _, warnings = read_broker_properties(lines)
    assert warnings == ["metrics are open to every machine that can connect: set metricsPromExporterHost=127.0.0.1"]
    for wrong in ("metricsExporterType=9", "metricsExporterType=STATSD", "metricsPromExporterPort=65536"):
        with pytest.raises(ConfigError, match=wrong.partition("=")[0]):
            read_broker_properties(wrong)


def test_a_keyword_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match="'brokr_name': did you mean broker_name"):
        broker_config(brokr_name="b")
    with pytest.raises(ConfigError, match="broker_name"):
        namesrv_config(broker_name="b")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"disk_fall_recorded": True}, "'disk_fall_recorded': statistics are gathered"),
        ({"flushDiskType": "SYNC_FLUSH"}, "'flushDiskType': it is called flush_disk_type"),
        ({"use_tls": True}, "'use_tls': TLS on connections to name servers"),
        ({"broker_role": "SLAVE"}, r"brokerRole=SLAVE: a replica \(SLAVE\) is not available here"),
        ({"broker_role": BrokerRole.SLAVE}, r"brokerRole=SLAVE: a replica \(SLAVE\) is not available here"),
        ({"broker_id": 1}, "brokerId=1: a replica"),
        ({"something_else": 1}, "'something_else'$"),
    ],
)
def test_a_keyword_that_cannot_be_says_why(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        broker_config(**settings)


def test_two_configs_share_no_part() -> None:
    one, other = broker_config(listen_port=1), broker_config(listen_port=2)
    assert (one.server.listen_port, other.server.listen_port) == (1, 2)


def test_settings_as_properties_and_back() -> None:
    config = broker_config(
        broker_name="b", broker_ip1="10.0.0.1", bind_address="127.0.0.1", enabled_append_prop_crc=True
    )
    properties = as_properties(config)
    assert properties["brokerIP1"] == "10.0.0.1"
    assert properties["enabledAppendPropCRC"] == "true"
    assert properties["flushDiskType"] == "ASYNC_FLUSH"
    again, warnings = read_broker_properties(format_properties({k: v for k, v in properties.items() if k[:3] != "max"}))
    assert again == config
    assert warnings == []


def test_the_properties_format() -> None:
    text = "a=1\n! note\n  b : two words  \nc three\nlong = x\\\n   y\\\n  z\n\\u0064=\\u00e9\\n\nempty\nk\\=ey=v\\\\\n"
    assert parse_properties(text) == {
        "a": "1", "b": "two words", "c": "three", "long": "xyz", "d": "é\n", "empty": "", "k=ey": "v\\",
    }  # fmt: skip


def test_a_bad_escape_is_an_error_of_the_file() -> None:
    with pytest.raises(ConfigError, match="escaped"):
        parse_properties("a=\\u00g1")


def test_a_tab_may_stand_where_java_takes_it_for_a_blank() -> None:
    assert broker_config(message_delay_level="1s\t2s").store.message_delay_level == "1s\t2s"


@pytest.mark.parametrize(
    "key", ["mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "mappedFileSizeConsumeQueueExt"]
)
@pytest.mark.parametrize("size", ["2147483648", "4294967296", "0", "-1"])
def test_files_larger_than_positions_in_them_can_say_are_refused(key: str, size: str) -> None:
    with pytest.raises(ConfigError, match=rf"{key}=-?\d+ is not usable: files of this kind have .*2 GiB - 1") as caught:
        read_broker_properties(f"{key}={size}")
    assert str(caught.value).count("is not usable") == 1


def test_the_largest_files_are_taken() -> None:
    store = read_broker_properties("mappedFileSizeCommitLog=2147483647\nmappedFileSizeConsumeQueue=2147483640")[0].store
    assert (store.mapped_file_size_commit_log, store.mapped_file_size_consume_queue) == (2147483647, 2147483640)
    for wrong in (2**31, True, "4096", 4096.0):
        with pytest.raises(ConfigError, match="mappedFileSizeCommitLog"):
            MessageStoreConfig(mapped_file_size_commit_log=wrong)
