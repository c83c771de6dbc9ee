"""The names and option letters of Apache's mqadmin."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.cli.commands import COMMANDS
from rocketpy.cli.mqadmin.missing import MISSING
from rocketpy.cli.mqadmin.names import ALIASES, find
from rocketpy.message import Message
from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli

NAMES = [
    "updateTopic",
    "updateTopicList",
    "deleteTopic",
    "updateSubGroup",
    "updateSubGroupList",
    "setConsumeMode",
    "deleteSubGroup",
    "updateBrokerConfig",
    "updateTopicPerm",
    "topicRoute",
    "topicStatus",
    "topicClusterList",
    "addBroker",
    "removeBroker",
    "resetMasterFlushOffset",
    "brokerStatus",
    "queryMsgById",
    "queryMsgByKey",
    "queryMsgByUniqueKey",
    "queryMsgByOffset",
    "queryMsgTraceById",
    "printMsg",
    "printMsgByQueue",
    "sendMsgStatus",
    "brokerConsumeStats",
    "producerConnection",
    "consumerConnection",
    "consumerProgress",
    "consumerStatus",
    "cloneGroupOffset",
    "producer",
    "clusterList",
    "topicList",
    "updateKvConfig",
    "deleteKvConfig",
    "wipeWritePerm",
    "addWritePerm",
    "resetOffsetByTime",
    "skipAccumulatedMessage",
    "updateOrderConf",
    "cleanExpiredCQ",
    "deleteExpiredCommitLog",
    "cleanUnusedTopic",
    "startMonitoring",
    "statsAll",
    "allocateMQ",
    "checkMsgSendRT",
    "clusterRT",
    "getNamesrvConfig",
    "updateNamesrvConfig",
    "getBrokerConfig",
    "getConsumerConfig",
    "queryCq",
    "sendMessage",
    "consumeMessage",
    "updateStaticTopic",
    "remappingStaticTopic",
    "exportMetadata",
    "exportConfigs",
    "exportMetrics",
    "exportMetadataInRocksDB",
    "exportPopRecord",
    "haStatus",
    "getSyncStateSet",
    "getBrokerEpoch",
    "getControllerMetaData",
    "getControllerConfig",
    "updateControllerConfig",
    "electMaster",
    "cleanBrokerMetadata",
    "dumpCompactionLog",
    "getColdDataFlowCtrInfo",
    "updateColdDataFlowCtrGroupConfig",
    "removeColdDataFlowCtrGroupConfig",
    "setCommitLogReadAheadMode",
    "createUser",
    "updateUser",
    "deleteUser",
    "getUser",
    "listUser",
    "copyUser",
    "createAcl",
    "updateAcl",
    "deleteAcl",
    "getAcl",
    "listAcl",
    "copyAcl",
    "rocksDBConfigToJson",
    "checkRocksdbCqWriteProgress",
]
"""The commands of mqadmin of 5.x, in its order."""


@pytest.fixture(scope="module")
def cluster(cluster: BlockingLocalCluster) -> BlockingLocalCluster:
    cluster.create_topic("Orders", queues=1)
    for number in range(3):
        cluster.send(Message("Orders", b"order %d" % number))
    cli = Cli(cluster)
    cli.ok("group", "create", "billing")
    cli.ok("group", "commit", "billing", "Orders", "-b", "broker-a", "-q", "0", "-o", "1", "--yes")
    return cluster


def test_every_name_of_mqadmin_is_known() -> None:
    known = {*ALIASES, *MISSING, *COMMANDS}
    assert [name for name in NAMES if name not in known] == []
    assert {*ALIASES, *MISSING} <= set(NAMES)
    assert not set(ALIASES) & set(MISSING)


def test_our_own_names_are_not_hidden_by_those_of_mqadmin() -> None:
    assert [name for name in COMMANDS if find(name) is not None] == []


def test_names_are_listed_and_hidden_from_the_main_help(cli: Cli) -> None:
    text = cli.ok("mqadmin", "--help")
    assert [name for name in (*ALIASES, *MISSING) if name not in text] == []
    main = cli.ok("--help")
    assert [name for name in (*ALIASES, *MISSING) if f"  {name} " in main] == []


@pytest.mark.parametrize("name", sorted(ALIASES))
def test_each_says_what_it_stands_for(cli: Cli, name: str) -> None:
    text = cli.ok(name, "--help")
    assert f'Run "rocketpy {ALIASES[name].command}" with the options of mqadmin.' in " ".join(text.split())
    assert [option.letter for option in ALIASES[name].options if f"-{option.letter}," not in text] == []
    assert cli.run(*ALIASES[name].command.split()[:1], "--help").exit_code == 0


@pytest.mark.parametrize("name", sorted(MISSING))
def test_what_is_not_done_names_what_is_nearest(cli: Cli, name: str) -> None:
    assert cli.fails(name, "-c", "DefaultCluster", "--any", "thing") == (
        f"rocketpy: error: rocketpy does not support {name} of mqadmin; {MISSING[name]}\n"
    )


def test_a_name_is_known_in_any_case_and_behind_mqadmin(cli: Cli) -> None:
    for line in (["topiclist"], ["TOPICLIST"], ["mqadmin", "topicList"]):
        assert {"topic": "Orders"} in cli.rows(*line)


def test_of_topics(cli: Cli, cluster: BlockingLocalCluster) -> None:
    broker = cluster.broker_addresses[0]
    [row] = cli.rows("updateTopic", "-t", "Made", "-c", "DefaultCluster", "-r", "4", "-w", "2", "-p", "4", "-o", "true")
    assert (row["readQueues"], row["writeQueues"], row["permission"], row["order"]) == (4, 2, "r", True)
    [row] = cli.rows("updateTopic", "-t", "Made", "-b", broker, "-a", "+message.type=FIFO")
    assert (row["writeQueues"], row["messageType"]) == (8, "FIFO")
    [row] = cli.rows("updateTopicPerm", "-t", "Made", "-c", "DefaultCluster", "-p", "6")
    assert (row["writeQueues"], row["permission"]) == (8, "rw")
    assert cli.rows("topicRoute", "-t", "Made")[0]["broker"] == "broker-a"
    assert cli.rows("topicClusterList", "-t", "Made")[0]["cluster"] == "DefaultCluster"
    assert cli.rows("topicStatus", "-t", "Orders")[0]["end"] == 3
    assert {"topic": "TBW102"} in cli.rows("topicList")
    assert "there is no terminal to ask" in cli.fails("deleteTopic", "-t", "Made", "-c", "DefaultCluster")
    assert cli.ok("deleteTopic", "-t", "Made", "-c", "DefaultCluster", "-y") == (
        "deleted the topic Made in the cluster DefaultCluster\n"
    )


def test_of_groups(cli: Cli) -> None:
    line = ["updateSubGroup", "-g", "made", "-c", "DefaultCluster"]
    [row] = cli.rows(*line, "-s", "true", "-d", "false", "-r", "3", "-q", "2")
    assert (row["consume"], row["broadcast"], row["maxRetries"], row["retryQueues"]) == (True, False, 3, 2)
    assert cli.rows("getConsumerConfig", "-g", "made") == [row]
    assert cli.rows("consumerProgress")[0]["group"] == "billing"
    assert cli.rows("consumerProgress", "-g", "billing", "-t", "Orders")[0]["lag"] == 2
    assert cli.ok("consumerConnection", "-g", "billing") == "no member is connected\n"
    assert cli.ok("consumerStatus", "-g", "billing", "-s") == "no member is connected\n"
    assert "has no member 'x'" in cli.fails("consumerStatus", "-g", "billing", "-i", "x")
    assert "no producer of the group shop" in cli.fails("producerConnection", "-g", "shop", "-t", "Orders")
    assert cli.ok("deleteSubGroup", "-g", "made", "-r", "true", "-y") == "deleted the group made and its offsets\n"


def test_of_offsets(cli: Cli) -> None:
    def offset(group: str) -> int:
        found: int = cli.rows("lag", group, "--topic", "Orders")[0]["committed"]
        return found

    cli.ok("group", "create", "report")
    cli.ok("cloneGroupOffset", "-s", "billing", "-d", "report", "-t", "Orders", "-o", "false", "-y")
    assert offset("report") == 1
    place = ["-g", "report", "-t", "Orders"]
    assert "from 1 to 2" in cli.ok(
        "resetOffsetByTime", *place, "-s", "-1", "-b", "broker-a", "-q", "0", "-o", "2", "-y"
    )
    for time, expected in (("2020-05-04#12:30:00:000", 0), ("now", 3), ("1577836800000", 0), ("-1", 3)):
        [row] = cli.rows("resetOffsetByTime", *place, "-s", time, "-f", "true", "-y")
        assert row["offset"] == expected
    cli.ok("resetOffsetByTime", *place, "-s", "0", "-y")
    assert cli.rows("skipAccumulatedMessage", *place, "-y")[0]["offset"] == 3
    assert "there is no terminal to ask" in cli.fails("resetOffsetByTime", *place, "-s", "now")


def test_of_files(cli: Cli, tmp_path: Path) -> None:
    topics, groups = tmp_path / "topics.json", tmp_path / "groups.json"
    topics.write_text('[{"topicName": "Listed", "writeQueueNums": 2, "readQueueNums": 3, "perm": 4}]', "utf-8")
    groups.write_text('[{"groupName": "listed", "retryMaxTimes": 4}]', "utf-8")
    for _ in range(2):
        [row] = cli.rows("updateTopicList", "-f", str(topics), "-c", "DefaultCluster")
        assert (row["topic"], row["writeQueues"], row["readQueues"], row["permission"]) == ("Listed", 2, 3, "r")
        [row] = cli.rows("updateSubGroupList", "-f", str(groups), "-b", "broker-a")
        assert (row["group"], row["maxRetries"]) == ("listed", 4)


def test_of_exports(cli: Cli, tmp_path: Path) -> None:
    folder = str(tmp_path / "new")
    for line, name in (
        (["exportMetadata", "-c", "DefaultCluster"], "metadata"),
        (["exportMetadata", "-b", "broker-a", "-t", "-s"], "topic"),
        (["exportMetadata", "-c", "DefaultCluster", "-g"], "subscriptionGroup"),
        (["exportConfigs", "-c", "DefaultCluster"], "configs"),
        (["exportMetrics", "-c", "DefaultCluster"], "metrics"),
    ):
        assert cli.ok(*line, "-f", folder) == f"wrote {folder}/{name}.json\n"
    assert "TBW102" in Path(folder, "topic.json").read_text("utf-8")
    assert "brokerConfigs" in cli.ok("exportConfigs", "-c", "DefaultCluster")


def test_of_tables(cli: Cli, cluster: BlockingLocalCluster) -> None:
    broker = cluster.broker_addresses[0]
    rows = cli.rows("statsAll", "-t", "Orders")
    assert ("Orders", "billing", 2) in {(row["topic"], row["group"], row["lag"]) for row in rows}
    assert "Orders" in {row["topic"] for row in cli.rows("statsAll")}
    rows = cli.rows("queryCq", "-t", "Orders", "-q", "0", "-i", "1", "-c", "1", "-b", broker)
    assert [row["offset"] for row in rows] == [1]
    assert cli.rows("haStatus", "-b", broker)[0]["isMaster"] is True
    assert cli.rows("haStatus", "-c", "DefaultCluster")[0]["broker"] == "broker-a"


def test_of_what_is_measured(cli: Cli, cluster: BlockingLocalCluster) -> None:
    broker = cluster.broker_addresses[0]
    rows = cli.rows("brokerConsumeStats", "-b", broker, "-t", "5000", "-l", "2")
    assert [(row["group"], row["topic"], row["lag"]) for row in rows] == [("billing", "Orders", 2)]
    assert cli.rows("brokerConsumeStats", "-b", broker, "-l", "3") == []
    assert cli.rows("sendMsgStatus", "-b", "broker-a", "-s", "32", "-c", "3")[-1]["messages"] == 3
    shared = cli.rows("allocateMQ", "-t", "Orders", "-i", "10.0.0.2,10.0.0.1")
    assert shared == [{"clientId": "10.0.0.1", "topic": "Orders", "broker": "broker-a", "queueId": 0}]
    words = find("clusterRT").alias.words({"c": "DefaultCluster", "a": "2", "s": "16", "i": "5"})
    assert " ".join(words) == "cluster probe --watch --messages 2 --size 16 --every 5 -- DefaultCluster"
    assert find("startMonitoring").alias.words({}) == ["lag", "--watch", "--every", "60"]


def test_of_servers(cli: Cli, cluster: BlockingLocalCluster) -> None:
    broker = cluster.broker_addresses[0]
    assert cli.rows("clusterList", "-m")[0]["name"] == "broker-a"
    assert cli.rows("clusterList", "-c", "DefaultCluster")[0]["name"] == "broker-a"
    assert cli.rows("brokerStatus", "-b", broker)[0]["version"] == "V5_3_3"
    assert cli.rows("brokerStatus", "-c", "DefaultCluster")[0]["broker"] == "broker-a"
    assert cli.rows("getBrokerConfig", "-b", broker)[0]["settings"]["brokerName"] == "broker-a"
    assert cli.ok("updateBrokerConfig", "-c", "DefaultCluster", "-k", "autoCreateTopicEnable", "-v", "false") == (
        "changed autoCreateTopicEnable of the cluster DefaultCluster\n"
    )
    assert "is read-only now" in cli.ok("wipeWritePerm", "-b", "broker-a")
    assert "is writable now" in cli.ok("addWritePerm", "-b", "broker-a")
    for name in ("cleanExpiredCQ", "deleteExpiredCommitLog", "cleanUnusedTopic"):
        assert cli.ok(name, "-b", "broker-a", "-y").endswith(" on broker-a\n")
    assert cli.rows("getNamesrvConfig")[0]["nameServer"] == cluster.name_server_addresses
    cli.ok("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true")
    cli.ok("updateKvConfig", "-s", "Space", "-k", "key", "-v", "value")
    assert cli.ok("namesrv", "kv", "get", "Space", "key") == "value\n"
    cli.ok("deleteKvConfig", "-s", "Space", "-k", "key", "-y")
    cli.ok("updateOrderConf", "-t", "Orders", "-m", "put", "-v", "broker-a:4;broker-b:2")
    assert "broker-a:4;broker-b:2" in cli.ok("updateOrderConf", "-t", "Orders", "-m", "get")
    cli.ok("updateOrderConf", "-t", "Orders", "-m", "delete", "-y")
    assert cli.ok("updateOrderConf", "-t", "Orders", "-m", "get") == "not set\n"


def test_the_name_server_is_given_as_in_mqadmin(cluster: BlockingLocalCluster) -> None:
    address = cluster.name_server_addresses
    for option in ("-n", "--namesrvAddr", "--namesrv"):
        assert {"topic": "Orders"} in Cli().rows("topicList", option, address)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["updateTopic", "-t", "T", "-p", "7"], "-p must be 2 (write), 4 (read) or 6 (both)"),
        (["updateTopic", "-t", "T", "-o", "yes"], "order must be true or false"),
        (["updateTopic", "-t", "T", "-a", "x=1"], "an attribute must be like +name=value or -name"),
        (["updateTopic", "-t", "T", "-u", "true"], "rocketpy does not support -u (unit) here: leave it out"),
        (["topicStatus", "-t", "Unknown"], "the topic Unknown does not exist"),
        (["updateOrderConf", "-t", "Orders", "-m", "change"], "-m must be get, put or delete"),
        (["updateOrderConf", "-t", "Orders", "-m", "put"], "-m put needs -v"),
        (["resetOffsetByTime", "-g", "g", "-t", "T", "-s", "soon"], "a time must be milliseconds since 1970"),
        (["resetOffsetByTime", "-g", "g", "-t", "T", "-s", "0", "-q", "1"], "only with -o"),
        (["resetOffsetByTime", "-g", "g", "-t", "T", "-s", "0", "-o", "1"], "-o needs a queue: pass -b and -q"),
        (["brokerConsumeStats", "-b", "broker-a", "-t", "soon"], "a timeout must be milliseconds"),
        (["brokerConsumeStats", "-b", "broker-a", "-o", "true"], "rocketpy does not support -o (order) here"),
        (["consumerProgress", "-s", "true"], "rocketpy does not support -s (showClientIP) here"),
    ],
)
def test_bad_input_is_refused(cli: Cli, line: list[str], said: str) -> None:
    assert said in cli.fails(*line)


def test_a_missing_option_is_a_usage_error(cli: Cli) -> None:
    assert "Missing option '-t' / '--topic'" in cli.fails("topicRoute", status=2)
