"""What peers may write instead of plain JSON, and what Apache's classes make of it.

The values stand in `tests/golden/json_read.tsv`, which `python -m tests.interop.json_read` writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "json_read.tsv"
HEADER = ("class", "text", "4.9.7", "5.3.3")


class Case(NamedTuple):
    """One text."""

    kind: str
    """The simple name of the class that a server reads it into."""
    text: str


class Row(NamedTuple):
    """One text, and what each release made of it."""

    case: Case
    answers: tuple[str, ...]
    """The object as JSON, "null", or "error" when it was refused."""


def read_golden() -> list[Row]:
    """The golden table."""
    rows = [line.split("\t") for line in GOLDEN.read_text("utf-8").splitlines()[1:]]
    return [Row(Case(kind, json.loads(text)), tuple(answers)) for kind, text, *answers in rows]


def cases() -> list[Case]:
    """All of them, each once."""
    found: list[Case] = []
    for kind, texts in _TEXTS.items():
        found += [Case(kind, text) for text in texts]
    for value in _NUMBERS:
        found += [Case("TopicConfig", f'{{"readQueueNums":{value}}}')]
        found += [Case("SubscriptionData", f'{{"topic":"T","subVersion":{value}}}')]
        found += [Case("RemotingCommand", f'{{"code":{value}}}')]
    for value in _BOOLEANS:
        found += [Case("TopicConfig", f'{{"order":{value}}}')]
    for value in _TEXT_VALUES:
        found += [Case("TopicConfig", f'{{"topicName":{value}}}')]
        found += [Case("RemotingCommand", f'{{"code":1,"extFields":{{"a":{value}}}}}')]
        found += [Case("RemotingCommand", f'{{"code":1,"remark":{value}}}')]
    for value in _ENUMS:
        found += [Case("ConsumerData", f'{{"groupName":"G","messageModel":{value}}}')]
        found += [Case("RemotingCommand", f'{{"code":1,"language":{value}}}')]
    found += [Case("TopicConfig", text) for text in _DIALECT]
    return list(dict.fromkeys(found))


_CPP_HEARTBEAT = (
    '{"clientID":"10.0.0.1@7","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"G",'
    '"messageModel":1,"subscriptionDataSet":[{"codeSet":["2598919"],"subString":"*","subVersion":"1700000000000",'
    '"tagsSet":["TAG"],"topic":"T"}],"unitMode":false}],"producerDataSet":[]}'
)

_TEXTS = {
    "HeartbeatData": [
        _CPP_HEARTBEAT,
        "{}",
        "null",
        "[]",
        "",
        '{"clientID":5,"producerDataSet":[{"groupName":7},null]}',
        '{"clientID":"a","producerDataSet":{"groupName":"P"}}',
        '{"clientID":"a","producerDataSet":[{"groupName":"P"},{"groupName":"P"}]}',
        '{"clientID":"a","producerDataSet":null,"consumerDataSet":null}',
        '{"clientID":"a","producerDataSet":"P"}',
        '{"clientId":"a"}',
        '{"CLIENTID":"a"}',
        '{"client_id":"a"}',
        '{"clientID":"a","heartbeatFingerprint":"12","withoutSub":"true"}',
        '{"clientID":"a","isWithoutSub":true}',
        '{"clientID":"a","extra":{"deep":[1,{"x":null}]},"more":[[]]}',
        '{"clientID":"a","consumerDataSet":[{"groupName":"G","consumeType":"PUSH"}]}',
        '{"clientID":"a","consumerDataSet":[{"groupName":"G","subscriptionDataSet":[{"topic":"T","subString":"*","subVersion":5,"codeSet":[1,"2",3.0],"tagsSet":[1,null]}]}]}',
    ],
    "SubscriptionData": [
        '{"topic":"T","classFilterMode":"false","subVersion":"5"}',
        '{"topic":"T","tagsSet":["a","a"],"codeSet":[97,97]}',
        '{"topic":"T","tagsSet":"a"}',
        '{"topic":"T","tagsSet":{}}',
        '{"topic":"T","codeSet":["x"]}',
        '{"topic":"T","codeSet":[null]}',
        '{"topic":"T","codeSet":[2147483648]}',
        '{"topic":"T","expressionType":null,"subString":null}',
    ],
    "TopicConfig": [
        '{"topicFilterType":1}',
        '{"topicFilterType":"MULTI_TAG"}',
        '{"topicFilterType":"multi_tag"}',
        '{"attributes":{"a":1,"b":null,"c":true}}',
        '{"attributes":{1:"x"}}',
        '{"attributes":[]}',
        '{"topicName":"a","topicName":"b"}',
        '{"perm":6,"perm":"4"}',
        '{"readQueueNums":4,"READQUEUENUMS":5}',
        '{"read_queue_nums":5}',
        '{"read-queue-nums":5}',
        '{"ReadQueueNums":5}',
    ],
    "SubscriptionGroupConfig": [
        '{"groupName":"g","retryMaxTimes":"3","consumeEnable":1}',
        '{"groupName":"g","groupRetryPolicy":{"type":1}}',
        '{"groupName":"g","groupRetryPolicy":{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":["1",2]}}}',
    ],
    "RemotingCommand": [
        "{}",
        "[]",
        "null",
        '{"code":1,"opaque":"7","flag":"2","version":"3"}',
        '{"code":1,"opaque":null,"flag":null,"version":null,"language":null,"remark":null,"extFields":null}',
        '{"code":1,"extFields":{"a":1,"b":true,"c":null,"d":1.5,"e":"","f":{"x":1},"g":[1,"2"]}}',
        '{"code":1,"extFields":[]}',
        '{"code":1,"extFields":"x"}',
        '{"code":1,"extFields":{"a":"1","a":"2"}}',
        '{"code":1,"code":2}',
        '{"code":1,"extFields":{"a":"1"},"extFields":{"b":"2"}}',
        '{"code":1,"extFields":{a:"1",\'b\':\'2\',3:"4"}}',
        '{"code":1,"serializeTypeCurrentRPC":"ROCKETMQ"}',
        '{"code":1,"serializeTypeCurrentRPC":1}',
        '{"code":1,"serializeTypeCurrentRPC":"X"}',
        '{"code":1,"body":"AAEC"}',
        '{"code":1,"body":"?"}',
        '{"code":1,"customHeader":{"a":1}}',
        '{"Code":1,"OPAQUE":2}',
    ],
}

_NUMBERS = (
    "7",
    "-7",
    "+7",
    "07",
    '"7"',
    "'7'",
    '" 7 "',
    '"+7"',
    '"07"',
    '"-7"',
    "7.0",
    "7.5",
    "-7.5",
    '"7.0"',
    '"7.5"',
    "7e2",
    '"7e2"',
    "true",
    "false",
    '"true"',
    '"x"',
    '""',
    "null",
    '"null"',
    '"NULL"',
    "[]",
    "{}",
    "[7]",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    '"2147483648"',
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    '"9223372036854775808"',
    "99999999999999999999",
    "7L",
    "7B",
    "7S",
    "7F",
    "7D",
    "1,000",
    '"1,000"',
    "0x10",
    "1e400",
    "NaN",
    '"1_0"',
    "-",
    "--7",
    "x",
)
_BOOLEANS = (
    "true",
    "false",
    '"true"',
    '"false"',
    '"TRUE"',
    '"True"',
    "1",
    "0",
    "2",
    "-1",
    '"1"',
    '"0"',
    '"2"',
    '"Y"',
    '"N"',
    '"y"',
    '"T"',
    '"F"',
    '"yes"',
    '"no"',
    '"on"',
    '""',
    "null",
    '"null"',
    "1.0",
    "0.0",
    "1.5",
    "[]",
    "{}",
    '"x"',
    "TRUE",
    "True",
)
_TEXT_VALUES = (
    "-0.0",
    "0.000",
    "0e7",
    "0.0e-9",
    "12.50e2",
    "1e-7",
    "0.0000012",
    "-1.20e-9",
    "1e2147483647",
    "1e2147483648",
    "1e-2147483647",
    "1e-2147483648",
    "1.5e-2147483647",
    "1e0000000000000000005",
    "1e99999999999999999999",
    "1e-99999999999999999999",
    "5",
    "-5",
    "5.0",
    "5.50",
    "1e3",
    "1E3",
    "1.5e300",
    "12345678901234567890",
    "0.1",
    "100000000000000000.5",
    "true",
    "false",
    "null",
    "[]",
    "[1,2]",
    '[1, "a"]',
    "{}",
    '{"b":1,"a":null}',
    '{"b":1, "a":[true]}',
    "'x'",
    "'it\\'s'",
    '"\\u0041\\x41"',
    '"\\v\\0\\q"',
    '"a\tb"',
    '"a\nb"',
    '"\\/"',
    "x",
    "undefined",
    "new Date(1)",
    'Set["a"]',
    "5L",
    '"\\ud83d\\ude00"',
    '"\\ud83d"',
)
_ENUMS = (
    "0",
    "1",
    "2",
    "9",
    "-1",
    "99",
    '"0"',
    '"1"',
    "1.0",
    '"CLUSTERING"',
    '"clustering"',
    '"GO"',
    '"go"',
    '"Go"',
    '"Clustering"',
    '"NOPE"',
    '""',
    "null",
    "true",
    "[]",
    "{}",
    "[1]",
    '{"name":"GO"}',
    "GO",
    "1L",
)
_DIALECT = (
    "{'perm':4}",
    "{perm:4}",
    "{perm : 4}",
    '{"perm" : 4 }',
    '{"perm":4,}',
    '{,"perm":4}',
    '{"perm":4,,"order":true}',
    '{,,,"perm":4,,,}',
    '{"perm":4}}',
    '{"perm":4} x',
    '{"perm":4},',
    '{"perm":4};',
    '{"perm":4}{"perm":5}',
    '{"perm":4}/* c */',
    '{"perm":4} // c',
    '{"perm":4} // c\n',
    '/* c */{"perm":4}',
    '// c\n{"perm":4}',
    '{/* c */"perm":4}',
    '{"perm"/* c */:4}',
    '{"perm":/* c */4}',
    '{"perm":4/* c */}',
    '{"perm":4/* c */,"order":true}',
    '{"perm":4,// c\n"order":true}',
    '{"perm":// c\n4}',
    '{"perm":4/* * / **/}',
    '{# c\n"perm":4}',
    '{"perm":4',
    '{"perm":',
    '{"perm"',
    '{"perm"}',
    '{"perm":}',
    '{"perm" 4}',
    '{"perm"=4}',
    '{"perm":4 "order":true}',
    '{"perm":4;"order":true}',
    "{perm-x:4}",
    '{per$m_:4,"perm":5}',
    '{1:4,"perm":5}',
    '{-1:4,"perm":5}',
    '{1.5:4,"perm":5}',
    '{{"a":1}:4,"perm":5}',
    '{[1]:4,"perm":5}',
    '{null:4,"perm":5}',
    '{true:4,"perm":5}',
    '{"x":[1,,2,],"perm":5}',
    '{"x":[,1],"perm":5}',
    '{"x":[1 2],"perm":5}',
    '{"x":[1,2},"perm":5}',
    '{"x":{"a":[}]},"perm":5}',
    '{"x":/a/,"perm":5}',
    '{"x":y,"perm":5}',
    '{"x":undefined,"perm":5}',
    '{"x":NaN,"perm":5}',
    '{"x":Infinity,"perm":5}',
    '{"x":Set[1,2],"perm":5}',
    '{"x":TreeSet[1,2],"perm":5}',
    '{"x":new Date(5),"perm":5}',
    '{"x":x\'4142\',"perm":5}',
    '{"x":.5,"perm":5}',
    '{"x":5.,"perm":5}',
    '{"x":1e,"perm":5}',
    '{"x":+1,"perm":5}',
    '{"x":01,"perm":5}',
    '{"x":0x1F,"perm":5}',
    '{"x":1L,"perm":5}',
    '{"x":1.5F,"perm":5}',
    '{"x":"a\nb","perm":5}',
    '{"x":\'a"b\',"perm":5}',
    '{"x":"\\u12","perm":5}',
    '{"x":"\\q","perm":5}',
    '{"pe\\u0072m":5}',
    "{'pe\\u0072m':5}",
    '{"perm\\u0000":5}',
    '\ufeff{"perm":5}',
    '\x0c{"perm":5}',
    '\x0b{"perm":5}',
    '\xa0{"perm":5}',
    '\u3000{"perm":5}',
    '{"perm":\x0c5}',
    '{"perm":\xa05}',
    '{"perm":5\x08}',
    '{"perm":5\x00}',
    '({"perm":5})',
    "5",
    '"x"',
    "true",
    "x",
    '{"$ref":"$"}',
    '{"attributes":{"a":{"$ref":"$.topicName"}},"topicName":"t"}',
    '{"@type":"java.util.HashMap","perm":5}',
)
