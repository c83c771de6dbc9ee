"""Raw requests about filters by properties, as a broker answers them with its switches on and off.

Each question has a group of its own, whose retry topic holds messages too. Not here: how answers are compared.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.interop import probe, questions
from tests.interop.questions import CHECK_CLIENT, HEARTBEAT, MAX, PULL, SEND_V2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.interop.probe import Answer

TOPIC, RETRY = "Filter-asked", "%RETRY%"
"""A topic of messages; what stands for the retry topic of the group that asks."""
SQL, TAG, UNKNOWN = "SQL92", "TAG", "XPATH"
ASKED_ITSELF = 4
"""The flag of a pull that brings its subscription."""
_MESSAGES = (("1", "red", 1), ("2", "green", 2), ("3", "red", 1))
"""Body, tag and the property `a`."""


@dataclass(frozen=True)
class Wanted:
    """A subscription."""

    topic: str
    expression: str
    kind: str = SQL


@dataclass(frozen=True)
class Check:
    """Whether the broker can do what a subscription needs, as a consumer asks at its start."""

    name: str
    wanted: Wanted | None


@dataclass(frozen=True)
class Pull:
    """A pull, by what it brings or by what a heartbeat on the same connection has told before."""

    name: str
    wanted: Wanted
    told: tuple[Wanted, ...] = ()
    brings: bool = True
    version: int = 1
    of_another: bool = False
    """Whether the pull speaks for another group than the one whose retry topic it is."""


CHECKS = [
    Check("SQL92", Wanted(TOPIC, "a = 1")),
    Check("a wrong expression", Wanted(TOPIC, "a >")),
    Check("an empty expression", Wanted(TOPIC, "")),
    Check("an unknown language", Wanted(TOPIC, "a = 1", UNKNOWN)),
    Check("tags", Wanted(TOPIC, "red || green", TAG)),
    Check("nothing", None),
]

PULLS = [
    Pull("SQL92", Wanted(TOPIC, "a = 1")),
    Pull("SQL92 that nothing matches", Wanted(TOPIC, "a = 7")),
    Pull("an empty expression", Wanted(TOPIC, "")),
    Pull("tags", Wanted(TOPIC, "red", TAG)),
    Pull("told SQL92", Wanted(TOPIC, "a = 2"), (Wanted(TOPIC, "a = 1"),), brings=False),
    Pull("told SQL92, older", Wanted(TOPIC, "a = 1"), (Wanted(TOPIC, "a = 1"),), brings=False, version=2),
    Pull("told a wrong expression", Wanted(TOPIC, "a >"), (Wanted(TOPIC, "a >"),), brings=False),
    Pull("told an unknown language", Wanted(TOPIC, "a"), (Wanted(TOPIC, "a", UNKNOWN),), brings=False),
    Pull("told tags", Wanted(TOPIC, "green", TAG), (Wanted(TOPIC, "green", TAG),), brings=False),
    Pull("told nothing of the topic", Wanted(TOPIC, "a = 1"), (Wanted(RETRY, "*", TAG),), brings=False),
]

RETRIES = [
    Pull("retries, SQL92", Wanted(RETRY, "a = 1")),
    Pull("retries, SQL92, told another of the topic", Wanted(RETRY, "a = 1"), (Wanted(TOPIC, "a = 2"),)),
    Pull("retries, SQL92, for another group", Wanted(RETRY, "a = 1"), (Wanted(TOPIC, "a = 2"),), of_another=True),
    Pull("retries, tags", Wanted(RETRY, "green", TAG), (Wanted(TOPIC, "a = 1"),)),
    Pull(
        "retries, told SQL92 of both",
        Wanted(RETRY, "a = 2"),
        (Wanted(TOPIC, "a = 1"), Wanted(RETRY, "a = 2")),
        brings=False,
    ),
    Pull(
        "retries, told as consumers do",
        Wanted(RETRY, "*", TAG),
        (Wanted(TOPIC, "a = 1"), Wanted(RETRY, "*", TAG)),
        brings=False,
    ),
]

APART = [
    (Pull("a wrong expression", Wanted(TOPIC, "a >")), 0, 23, "Apache's broker gives everything"),
    (Pull("an unknown language", Wanted(TOPIC, "a", UNKNOWN)), 0, 23, "Apache's broker gives everything"),
]
"""Where our broker differs on purpose while filters are on: the question, Apache's code, ours, and why."""


def prepare(broker: str) -> None:
    """Make the topic, with its messages."""
    _fill(broker, TOPIC)


def check(broker: str, group: str, question: Check) -> Answer:
    """Ask as a consumer asks before its first heartbeat."""
    wanted = None if question.wanted is None else _subscription(question.wanted, group)
    body = {"clientId": "filter@1", "group": group, "subscriptionData": wanted}
    return probe.call(broker, CHECK_CLIENT, body=json.dumps(body).encode(), timeout=10)


def pull(broker: str, group: str, question: Pull) -> Answer:
    """Fill the group's retry topic if the question is about it, then tell what is told, and pull."""
    wanted = question.wanted
    if wanted.topic == RETRY:
        _fill(broker, RETRY + group, RETRY_TOPIC=TOPIC)
    fields = questions.pull(
        _topic(wanted, group),
        consumerGroup=f"{group}-other" if question.of_another else group,
        sysFlag=ASKED_ITSELF if question.brings else 0,
        subVersion=question.version,
        subscription=wanted.expression,
        expressionType=wanted.kind,
    )
    requests: list[probe.Request] = [(PULL, fields, b"")]
    if question.told:
        requests.insert(0, (HEARTBEAT, {}, _heartbeat(group, question.told)))
    *before, answer = probe.converse(broker, requests, timeout=10)
    assert all(each.code == 0 for each in before), before
    return answer


def _fill(broker: str, topic: str, **others: str) -> None:
    probe.create_topic(broker, topic, queues=1)
    for body, tag, number in _MESSAGES:
        properties = {"TAGS": tag, "a": str(number), **others}
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
        assert probe.call(broker, SEND_V2, questions.message(topic, i=text), body.encode()).code == 0
    count = str(len(_MESSAGES))

    def arrived() -> bool | None:
        return probe.call(broker, MAX, {"topic": topic, "queueId": 0}).fields["offset"] == count or None

    probe.eventually(arrived, f"{count} messages in {topic}", 10)


def _heartbeat(group: str, told: Sequence[Wanted]) -> bytes:
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [_subscription(each, group) for each in told],
        "unitMode": False,
    }
    return json.dumps({"clientID": "filter@1", "producerDataSet": [], "consumerDataSet": [consumer]}).encode()


def _subscription(wanted: Wanted, group: str) -> dict[str, object]:
    tags = [each.strip() for each in wanted.expression.split("||")] if wanted.kind == TAG else []
    tags = [] if tags == ["*"] else tags
    return {
        "topic": _topic(wanted, group),
        "subString": wanted.expression,
        "expressionType": wanted.kind,
        "tagsSet": tags,
        "codeSet": [_hash(tag) for tag in tags],
        "subVersion": 1,
        "classFilterMode": False,
    }


def _hash(text: str) -> int:
    """Java's hash of an ASCII string."""
    value = 0
    for each in text:
        value = (31 * value + ord(each)) % (1 << 32)
    return value - (1 << 32) if value >= 1 << 31 else value


def _topic(wanted: Wanted, group: str) -> str:
    return RETRY + group if wanted.topic == RETRY else wanted.topic
