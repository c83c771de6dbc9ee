"""Writes the tables of settings from their declarations, whenever the pages are built.

The page holds markers; tables take their place before the page is read. So the page cannot lag behind.
"""

from __future__ import annotations

import ast
import csv
import enum
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs

from rocketpy.config import (
    ClientConfig,
    LitePullConsumerConfig,
    ProducerConfig,
    PullConsumerConfig,
    PushConsumerConfig,
    TransactionProducerConfig,
)
from rocketpy.config.advice import NOT_THERE, SYSTEM_PROPERTIES
from rocketpy.config.java import NOT_THERE_OF, OTHER_DEFAULTS, fields_by_java_name
from rocketpy.config.java_inside import COUNTERPARTS, REASONS
from rocketpy_broker_sim.config import BROKER_UPDATES, NAMESRV_UPDATES, table

PAGE = "reference/settings"
MARKER = re.compile(r"<!-- settings: (.+?) -->")

CLIENTS = {
    "client": ClientConfig,
    "producer": ProducerConfig,
    "transaction producer": TransactionProducerConfig,
    "push consumer": PushConsumerConfig,
    "lite pull consumer": LitePullConsumerConfig,
    "pull consumer": PullConsumerConfig,
}
JAVAS = {
    "Java's DefaultMQProducer": ProducerConfig,
    "Java's TransactionMQProducer": TransactionProducerConfig,
    "Java's DefaultMQPushConsumer": PushConsumerConfig,
    "Java's DefaultLitePullConsumer": LitePullConsumerConfig,
    "Java's DefaultMQPullConsumer": PullConsumerConfig,
}
"""What is shown the other way round: what Java's class has, and what there is for it."""
GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "config_keys.tsv"
"""What Apache's classes said of their settings."""
KEYS = {"broker": table.broker_keys, "name server": table.namesrv_keys}
UPDATES = {"broker": BROKER_UPDATES, "name server": NAMESRV_UPDATES}
LANES = {
    r"ThreadPoolNums$": "Requests of this kind that are worked on at once.",
    r"PoolQueueCapacity$": "Requests of this kind that may wait; more are refused.",
    r"^waitTimeMillsIn": "Milliseconds that a request of this kind may wait before it is refused.",
}
STATUS = {status.value: status for status in table.KeyStatus}


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", fill_page)
    return {"parallel_read_safe": True}


def fill_page(_app: Any, name: str, source: list[str]) -> None:
    if name == PAGE:
        source[0] = MARKER.sub(lambda found: content(found[1]), source[0])


def content(wanted: str) -> str:
    """The table that a marker asks for; a marker that asks for none is an error of the page."""
    subject, _, rest = wanted.partition(", ")
    if subject in CLIENTS and not rest:
        return of_clients(CLIENTS[subject])
    if wanted in JAVAS:
        return of_java(wanted.removeprefix("Java's "), JAVAS[wanted])
    if wanted == "not of clients":
        return markdown(("Java's name", "why there is none"), by_reason({**NOT_THERE, **SYSTEM_PROPERTIES}))
    if wanted == "inside of Java's clients":
        ours = [(code(key), code(name)) for key, name in sorted(COUNTERPARTS.items())]
        return markdown(("Java's name", "ours, or why there is none"), [*ours, *by_reason(REASONS)])
    rows = [row for row in KEYS[subject]().values() if row.status is STATUS.get(rest, table.KeyStatus.HONOURED)]
    if rest in ("honoured", "our own"):
        return honoured([row for row in rows if row.own == (rest == "our own")], UPDATES[subject])
    return markdown(("key", "why"), by_reason({row.key: row.reason for row in rows}))


def of_clients(kind: type[ClientConfig]) -> str:
    parent = ProducerConfig if issubclass(kind, ProducerConfig) and kind is not ProducerConfig else ClientConfig
    own = [field for field in attrs.fields(kind) if kind is ClientConfig or not hasattr(parent, field.name)]
    texts = field_texts(kind)
    return markdown(
        ("setting", "default", "Java", "meaning"),
        [(code(each.name), default_of(each), java_of(each), texts[each.name]) for each in own],
    )


def of_java(owner: str, kind: type[ClientConfig]) -> str:
    """Every setting that a class of Java's has in some release, with ours or the reason why there is none."""
    here = fields_by_java_name(kind)
    everywhere = fields_by_java_name()
    why_not = {**NOT_THERE, **NOT_THERE_OF.get(kind, {})}
    rows = []
    for key, defaults in javas(owner).items():
        if key in here:
            ours, note = code(here[key].name), OTHER_DEFAULTS.get(key, "the same default")
        elif key in why_not:
            ours, note = "none", why_not[key]
        else:
            ours, note = "none", f"of producers alone: {code(everywhere[key].name)}"
        shown = " / ".join(dict.fromkeys(code(each) if each else "not there" for each in defaults))
        rows.append((code(key), shown, ours, note))
    return markdown(("Java's setting", "its default", "ours", "note"), rows)


def javas(owner: str) -> dict[str, tuple[str, str]]:
    """Setting of Java's class -> its defaults in 4.9.7 and 5.3.3; empty where a release does not have it."""
    with GOLDEN.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row["key"]: (row["4.9.7"], row["5.3.3"]) for row in rows if row["class"] == owner}


def java_of(field: attrs.Attribute[Any]) -> str:
    java = field.metadata.get("java")
    note = OTHER_DEFAULTS.get(java or "")
    return (code(java) if java else "") + (f": {note}" if note else "")


def default_of(field: attrs.Attribute[Any]) -> str:
    default = field.default
    if default is attrs.NOTHING:
        return "required"
    if isinstance(default, attrs.Factory):
        return ""
    if isinstance(default, frozenset):
        return ", ".join(str(int(each)) for each in sorted(default))
    if isinstance(default, enum.Enum):
        return code(default.name)
    return "`4.x`" if field.name == "latency_table" else code(default)


def honoured(rows: Iterable[table.KeyRow], updates: Iterable[str]) -> str:
    changing = set(updates)
    texts = {}
    for kind in (
        table.BrokerConfig,
        table.MessageStoreConfig,
        table.MetricsConfig,
        table.NettyServerConfig,
        table.NamesrvConfig,
    ):
        texts.update({(kind, name): text for name, text in field_texts(kind).items()})
    found = []
    for row in rows:
        meaning = next((text for (kind, name), text in texts.items() if row.field is vars_of(kind).get(name)), "")
        other = table.OTHER_DEFAULTS.get(row.key)
        notes = [
            meaning or of_lanes(row.key),
            f"The default: {other}." if other else "",
            "May change at run time." if row.key in changing else "",
        ]
        found.append((code(row.key), code(row.default) if row.default else "", " ".join(filter(None, notes))))
    return markdown(("key", "default", "meaning"), found)


def of_lanes(key: str) -> str:
    """What the settings of all lanes mean; each kind of request has one."""
    return next((text for pattern, text in LANES.items() if re.search(pattern, key)), "")


def vars_of(kind: type[Any]) -> dict[str, attrs.Attribute[Any]]:
    return {field.name: field for field in attrs.fields(kind)}


def field_texts(kind: type[Any]) -> dict[str, str]:
    """Field name -> the text below it in the source, one line; fields of parents included."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        body = ast.parse(inspect.getsource(each)).body[0].body  # type: ignore[attr-defined]
        for node, following in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                said = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
                found[node.target.id] = " ".join(str(following.value.value).split()) if said else ""
    return found


def by_reason(keys: dict[str, str] | Any) -> list[tuple[str, str]]:
    """One row for every reason, with all keys that it holds for."""
    groups: dict[str, list[str]] = {}
    for key, reason in keys.items():
        groups.setdefault(reason, []).append(key)
    return [(" ".join(map(code, sorted(group))), reason) for reason, group in groups.items()]


def code(value: object) -> str:
    return f"`{value}`" if value != "" else ""


def markdown(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
