"""The commands of mqadmin about messages."""

from __future__ import annotations

from typing import Final

from rocketpy.cli.mqadmin.alias import ARGUMENT, IGNORED, Alias, Given, Option
from rocketpy.cli.mqadmin.convert import time
from rocketpy.errors import ConfigError

__all__ = ["MESSAGES"]

_TOPIC: Final = Option("t", "topic", ARGUMENT, required=True)
_ID: Final = Option("i", "msgId", ARGUMENT, required=True)
_GROUP: Final = Option("g", "consumerGroup", "--group")
_CLIENT: Final = Option("d", "clientId", "--client")
_ROUTE: Final = Option("c", "cluster", None)
_ENCODING: Final = Option("c", "charsetName", IGNORED)
_FORMAT: Final = Option("f", "bodyFormat", IGNORED)
_BODY: Final = Option("d", "printBody", IGNORED)
_BEGIN: Final = Option("b", "beginTimestamp", lambda text: [f"--from={time(text)}"])
_TAGS: Final = Option("s", "subExpression", "--tags")
_MOST: Final = 100_000
"""The most messages that are read of a span of time."""


# --- commands whose options do not map one by one ----------------------------------------------------


def _by_id(given: Given) -> list[str]:
    found = [f"--topic={given['t']}"] if "t" in given else []
    if "g" in given or "d" in given:
        return _consumed(given, found)
    if given.get("s", "").lower() == "true":
        return ["message", "resend", *found, "--", *given["i"].split(",")]
    return ["message", "view", *found, "--", given["i"]]


def _by_unique_key(given: Given) -> list[str]:
    if "g" in given or "d" in given:
        return _consumed(given, [f"--topic={given['t']}"])
    return ["message", "query", "--unique", "--", given["t"], given["i"]]


def _consumed(given: Given, found: list[str]) -> list[str]:
    if "g" not in given or "d" not in given:
        raise ConfigError("pass -g and -d together: the group, and its member that consumes the message")
    return ["message", "consume", *found, f"--group={given['g']}", f"--client={given['d']}", "--", given["i"]]


def _by_offset(given: Given) -> list[str]:
    return [
        "message",
        "read",
        f"--broker={given['b']}",
        f"--queue={given['i']}",
        f"--begin={given['o']}",
        "--count=1",
        "--",
        given["t"],
    ]


def _print(given: Given) -> list[str]:
    tags = [f"--tags={given['s']}"] if "s" in given else []
    if "e" in given:
        begin = time(given["b"]) if "b" in given else "0"
        return ["message", "by-time", f"--count={_MOST}", *tags, "--", given["t"], begin, time(given["e"])]
    start = time(given["b"]) if "b" in given else "begin"
    return ["tail", f"--from={start}", *tags, "--", given["t"]]


def _send(given: Given) -> list[str]:
    words = [f"--tags={given['c']}"] if "c" in given else []
    words += [f"--key={given['k']}"] if "k" in given else []
    if "i" in given:
        words.append(f"--queue={given['b']}:{given['i']}" if "b" in given else f"--queue={given['i']}")
    elif "b" in given:
        raise ConfigError("-b needs the number of a queue: pass -i too")
    return ["send", *words, "--", given["t"], given["p"]]


def _consume(given: Given) -> list[str]:
    words = [f"--{name}={given[letter]}" for letter, name in (("b", "broker"), ("i", "queue")) if letter in given]
    if "o" in given and "s" in given:
        raise ConfigError("pass -o or -s, not both")
    start = given.get("o") or (time(given["s"]) if "s" in given else "begin")
    return ["tail", f"--from={start}", f"--count={given.get('c', '128')}", *words, "--", given["t"]]


# --- the table --------------------------------------------------------------------------------------------

MESSAGES: Final = {
    "queryMsgById": Alias(
        "message view",
        (
            _ID,
            Option("t", "topic", "--topic"),
            _GROUP,
            _CLIENT,
            Option("s", "sendMessage", ARGUMENT),
            Option("u", "unitName", IGNORED),
            _FORMAT,
            _ROUTE,
        ),
        _by_id,
    ),
    "queryMsgByKey": Alias(
        "message query",
        (
            _TOPIC,
            Option("k", "msgKey", ARGUMENT, required=True),
            Option("b", "beginTimestamp", "--begin"),
            Option("e", "endTimestamp", "--end"),
            Option("m", "maxNum", "--count"),
            _ROUTE,
        ),
    ),
    "queryMsgByUniqueKey": Alias(
        "message query --unique",
        (_ID, _TOPIC, _GROUP, _CLIENT, Option("a", "showAll", IGNORED, flag=True), _ROUTE),
        _by_unique_key,
    ),
    "queryMsgByOffset": Alias(
        "message read",
        (
            _TOPIC,
            Option("b", "brokerName", "--broker", required=True),
            Option("i", "queueId", "--queue", required=True),
            Option("o", "offset", "--begin", required=True),
            _FORMAT,
        ),
        _by_offset,
    ),
    "queryCq": Alias(
        "message entries",
        (
            _TOPIC,
            Option("q", "queue", "--queue", required=True),
            Option("i", "index", "--begin", required=True),
            Option("c", "count", "--count"),
            Option("b", "broker", "--broker"),
            Option("g", "consumer", "--group"),
        ),
    ),
    "printMsg": Alias(
        "tail --from begin",
        (
            _TOPIC,
            _TAGS,
            _BEGIN,
            Option("e", "endTimestamp", ARGUMENT),
            _ENCODING,
            _BODY,
            Option("l", "lmqParentTopic", None),
        ),
        _print,
    ),
    "printMsgByQueue": Alias(
        "tail --from begin",
        (
            _TOPIC,
            Option("a", "brokerName", "--broker", required=True),
            Option("i", "queueId", "--queue", required=True),
            _BEGIN,
            Option("e", "endTimestamp", None),
            _TAGS,
            _ENCODING,
            _BODY,
            Option("p", "print", IGNORED),
            Option("f", "calculate", None),
        ),
    ),
    "sendMessage": Alias(
        "send",
        (
            _TOPIC,
            Option("p", "body", ARGUMENT, required=True),
            Option("k", "key", "--key"),
            Option("c", "tags", "--tags"),
            Option("b", "broker", ARGUMENT),
            Option("i", "qid", "--queue"),
            Option("m", "msgTraceEnable", None),
        ),
        _send,
    ),
    "consumeMessage": Alias(
        "tail --from begin",
        (
            _TOPIC,
            Option("b", "brokerName", "--broker"),
            Option("i", "queueId", "--queue"),
            Option("o", "offset", "--from"),
            Option("s", "beginTimestamp", "--from"),
            Option("e", "endTimestamp", None),
            Option("c", "MessageNumber", "--count"),
            Option("g", "consumerGroup", IGNORED),
        ),
        _consume,
    ),
    "queryMsgTraceById": Alias(
        "trace",
        (
            _ID,
            Option("t", "traceTopic", "--trace-topic"),
            Option("b", "beginTimestamp", None),
            Option("e", "endTimestamp", None),
            Option("c", "maxNum", IGNORED),
        ),
    ),
    "sendMsgStatus": Alias(
        "bench --in-flight 1 --messages 50 --size 128",
        (
            Option("b", "brokerName", ARGUMENT, required=True),
            Option("s", "messageSize", "--size"),
            Option("c", "count", "--messages"),
        ),
    ),
    "checkMsgSendRT": Alias(
        "bench --in-flight 1 --messages 100 --size 128",
        (_TOPIC, Option("a", "amount", "--messages"), Option("s", "size", "--size")),
    ),
}
"""The commands by their names in mqadmin."""
