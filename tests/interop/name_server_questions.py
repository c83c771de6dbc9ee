"""Raw requests, good and bad, that a name server of ours has to answer as Apache's does, and where it does not.

They are about a cluster with one broker, `BROKER`, and stand alone. Not here: how answers are compared.
"""

from __future__ import annotations

import json

from tests.interop.questions import Question, without

BROKER = "broker-asked"

PUT_KV, GET_KV, DELETE_KV, KV_LIST = 100, 101, 102, 219
REGISTER, UNREGISTER, ROUTE, CLUSTER, WIPE, ALL_TOPICS, DELETE_TOPIC = 103, 104, 105, 106, 205, 206, 216
REGISTER_TOPIC, TOPICS_OF_CLUSTER, SYSTEM_TOPICS = 217, 224, 304
UNIT_TOPICS, UNIT_SUBSCRIBED, SUBSCRIBED_BY_UNITS = 311, 312, 313
UPDATE_CONFIG, GET_CONFIG, DATA_VERSION, RESTORE = 318, 319, 322, 327
MEMBERS, HEARTBEAT = 901, 904

STRANGER: dict[str, object] = {"brokerName": "stranger", "brokerAddr": "127.0.0.1:1", "clusterName": "c", "brokerId": 0}
REGISTRATION = {**STRANGER, "haServerAddr": "127.0.0.1:2", "compressed": "false"}
VERSION = {"counter": 1, "timestamp": 5, "stateVersion": 0}
PAIR: dict[str, object] = {"namespace": "asked", "key": "name", "value": "größe"}


def registration_body() -> bytes:
    """What a broker without topics says of itself."""
    wrapper = {"dataVersion": VERSION, "topicConfigTable": {}}
    return json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}).encode()


ALIKE = [
    Question("the route of the default topic", ROUTE, {"topic": "TBW102", "acceptStandardJsonOnly": "true"}),
    Question("a route with a flag that is none", ROUTE, {"topic": "TBW102", "acceptStandardJsonOnly": "maybe"}),
    Question("the route of an unknown topic", ROUTE, {"topic": "Unknown"}),
    Question("the route of a topic without a name", ROUTE, {"topic": ""}),
    Question("the route of no topic", ROUTE),
    Question("the cluster, with a body nobody wants", CLUSTER, {"x": "y"}, b"body"),
    Question("all topics", ALL_TOPICS),
    Question("the topics of a cluster", TOPICS_OF_CLUSTER, {"cluster": "InteropCluster"}),
    Question("the topics of an unknown cluster", TOPICS_OF_CLUSTER, {"cluster": "unknown"}),
    Question("the topics of the system", SYSTEM_TOPICS),
    Question("topics of units", UNIT_TOPICS),
    Question("topics with subscriptions of units", UNIT_SUBSCRIBED),
    Question("topics of no unit with such subscriptions", SUBSCRIBED_BY_UNITS),
    Question("the members of a broker", MEMBERS, {"clusterName": "InteropCluster", "brokerName": BROKER}),
    Question("the members of an unknown broker", MEMBERS, {"clusterName": "none", "brokerName": "none"}),
    Question("wipe an unknown broker", WIPE, {"brokerName": "unknown"}),
    Question("restore an unknown broker", RESTORE, {"brokerName": "unknown"}),
    Question("delete an unknown topic", DELETE_TOPIC, {"topic": "Unknown"}),
    Question("delete a topic in an unknown cluster", DELETE_TOPIC, {"topic": "Unknown", "clusterName": "unknown"}),
    Question("put a pair", PUT_KV, PAIR),
    Question("put a pair into the space without a name", PUT_KV, {"namespace": "", "key": "k", "value": "v"}),
    Question("put a pair without a name", PUT_KV, {"namespace": "asked", "key": "", "value": "v"}),
    Question("get a pair of the space without a name", GET_KV, {"namespace": "", "key": "none"}),
    Question("delete a pair of the space without a name", DELETE_KV, {"namespace": "", "key": "k"}),
    Question("put nothing", PUT_KV),
    Question("get a pair that is not there", GET_KV, {"namespace": "none", "key": "none"}),
    Question("delete a pair that is not there", DELETE_KV, {"namespace": "none", "key": "none"}),
    Question("list a space that is not there", KV_LIST, {"namespace": "none"}),
    Question("unregister an unknown broker", UNREGISTER, STRANGER),
    Question("the version of an unknown broker", DATA_VERSION, STRANGER, json.dumps(VERSION).encode()),
    Question("the version of nobody", DATA_VERSION),
    Question("register a master", REGISTER, REGISTRATION, registration_body()),
    Question("register a slave alone", REGISTER, {**REGISTRATION, "brokerId": 1}, registration_body()),
    Question("register with a wrong checksum", REGISTER, {**REGISTRATION, "bodyCrc32": 5}, registration_body()),
    Question("register without a body", REGISTER, {**REGISTRATION, "bodyCrc32": 0}),
    Question("register with a body that is no JSON", REGISTER, REGISTRATION, b"{{{"),
    Question("register nobody", REGISTER),
    Question("a sign of life of an unknown broker", HEARTBEAT, without(STRANGER, "brokerId")),
    Question("a sign of life of nobody", HEARTBEAT),
    Question("the settings", GET_CONFIG),
    Question("set nothing", UPDATE_CONFIG),
    Question("set the place of the settings", UPDATE_CONFIG, {}, b"configStorePath=/nowhere"),
    Question("set the place of the pairs", UPDATE_CONFIG, {}, b"kvConfigPath=/nowhere"),
    Question("set the home", UPDATE_CONFIG, {}, b"rocketmqHome=/nowhere"),
    Question("set what may not be set", UPDATE_CONFIG, {}, b"configBlackList=x"),
    Question("an unknown request to a name server", 7777),
    Question("a request to a name server with the code of success", 0),
]

_REQUIRED = "a required field is missing, which Apache reads as null"
_LISTED = "only listed keys change at run time"

APART: list[tuple[Question, int, int, str]] = [
    (Question("wipe nobody", WIPE), 0, 1, _REQUIRED),
    (Question("delete no topic", DELETE_TOPIC), 0, 1, _REQUIRED),
    (Question("the topics of no cluster", TOPICS_OF_CLUSTER), 0, 1, _REQUIRED),
    (Question("put a pair without its value", PUT_KV, without(PAIR, "value")), 0, 1, _REQUIRED),
    (Question("get no pair", GET_KV), 22, 1, _REQUIRED),
    (Question("delete no pair", DELETE_KV), 0, 1, _REQUIRED),
    (Question("list no space", KV_LIST), 22, 1, _REQUIRED),
    (Question("unregister nobody", UNREGISTER), 0, 1, _REQUIRED),
    (Question("the members of nobody", MEMBERS), 0, 1, _REQUIRED),
    (Question("register no topic alone", REGISTER_TOPIC), 0, 1, _REQUIRED),
    (Question("a version that is none", DATA_VERSION, STRANGER), 0, 1, "there is nothing to compare with"),
    (Question("set an unknown setting", UPDATE_CONFIG, {}, b"nothing=1"), 0, 16, _LISTED),
    (Question("set what is no setting", UPDATE_CONFIG, {}, b"garbage"), 0, 16, _LISTED),
    (Question("set the port", UPDATE_CONFIG, {}, b"listenPort=5"), 0, 16, _LISTED),
    (Question("set a number to a word", UPDATE_CONFIG, {}, b"scanNotActiveBrokerInterval=abc"), 0, 16, _LISTED),
]
"""Where our name server differs on purpose: the question, Apache's code, ours, and why."""
