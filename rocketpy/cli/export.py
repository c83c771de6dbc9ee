"""rocketpy cluster export: write topics and groups, settings, or figures of a cluster as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rocketpy.cli.asking import answers
from rocketpy.cli.command import Group
from rocketpy.cli.options import FILE, brokers_option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocketpy.admin import BrokerEntry, GroupSettings, TopicSettings
    from rocketpy.cli.session import Session

__all__ = ["export"]

_FILE = click.option(
    "--file", "-f", "path", type=FILE, metavar="FILE", help="Write this file instead of standard output."
)
_PERMISSIONS: Final = {"": 0, "w": 2, "r": 4, "rw": 6}


@click.group("export", cls=Group)
def export() -> None:
    """Write what a cluster has as JSON, in the format of mqadmin."""


@export.command("metadata")
@click.argument("cluster", required=False)
@click.option("--topics", is_flag=True, help="Only the topics.")
@click.option("--groups", is_flag=True, help="Only the groups.")
@click.option("--internal", is_flag=True, help="Include RocketMQ's own topics and groups, retry topics and the like.")
@brokers_option
@_FILE
@click.pass_obj
def metadata(
    session: Session,
    cluster: str | None,
    topics: bool,
    groups: bool,
    internal: bool,
    brokers: tuple[str, ...],
    path: str | None,
) -> None:
    """Write the settings of all topics and groups, of one cluster or of all.

    "rocketpy topic import" and "rocketpy group import" read them. A topic or group that several brokers have is there
    once, with the largest of their numbers of queues.
    """
    from rocketpy.seams import wall_ms

    where: dict[str, Any] = {"brokers": brokers or None, "cluster": cluster, "internal": internal}
    found: dict[str, Any] = {}
    with session.admin() as admin:
        if topics or not groups:
            found["topicConfigTable"] = _by_name(
                map(_topic, session.partly(admin.topics.get_all, **where)), "topicName"
            )
        if groups or not topics:
            rows = map(_group, session.partly(admin.groups.get_all, **where))
            found["subscriptionGroupTable"] = _by_name(rows, "groupName")
    _write(session, {**found, "exportTime": wall_ms()}, path)


@export.command("configs")
@click.argument("cluster", required=False)
@_FILE
@click.pass_obj
def configs(session: Session, cluster: str | None, path: str | None) -> None:
    """Write the settings of all masters, and how many servers there are, of one cluster or of all."""
    with session.admin() as admin:
        entries = admin.brokers.list(cluster=cluster)
        servers = len(admin.name_servers.addresses)
        doing = "asking for the settings of the brokers"
        found = answers(session, masters(entries), lambda name: dict(admin.brokers.config(name).settings), doing)
    slaves = sum(not each.is_master for each in entries)
    scale = {"namesrvSize": servers, "masterBrokerSize": len(masters(entries)), "slaveBrokerSize": slaves}
    _write(session, {"brokerConfigs": found, "clusterScale": scale}, path)


@export.command("metrics")
@click.argument("cluster", required=False)
@_FILE
@click.pass_obj
def metrics(session: Session, cluster: str | None, path: str | None) -> None:
    """Write rates, counts and versions of all masters and clients, of one cluster or of all."""
    from rocketpy.cli.figures import broker_figures, totals

    with session.admin() as admin:
        names = masters(admin.brokers.list(cluster=cluster))
        doing = "asking for the figures of the brokers"
        found = answers(session, names, lambda name: broker_figures(admin, name), doing)
    _write(session, {"evaluateReport": found, "totalData": totals(found.values())}, path)


def masters(entries: Iterable[BrokerEntry]) -> list[str]:
    """The names of the masters among brokers."""
    return [each.name for each in entries if each.is_master]


# --- what is written -----------------------------------------------------------------------------------


def _topic(found: TopicSettings) -> dict[str, Any]:
    return {
        "topicName": found.topic,
        "readQueueNums": found.read_queues,
        "writeQueueNums": found.write_queues,
        "perm": _PERMISSIONS[found.permission],
        "order": found.order,
        "attributes": dict(found.attributes),
    }


def _group(found: GroupSettings) -> dict[str, Any]:
    return {
        "groupName": found.group,
        "consumeEnable": found.consume,
        "consumeBroadcastEnable": found.broadcast,
        "consumeMessageOrderly": found.orderly,
        "retryMaxTimes": found.max_retries,
        "retryQueueNums": found.retry_queues,
        "consumeTimeoutMinute": round(found.consume_timeout / 60),
        "attributes": dict(found.attributes),
    }


def _by_name(rows: Iterable[dict[str, Any]], key: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for each in rows:
        known = found.setdefault(each[key], each)
        for name in ("readQueueNums", "writeQueueNums", "retryQueueNums"):
            if name in each:
                known[name] = max(known[name], each[name])
    return found


def _write(session: Session, found: dict[str, Any], path: str | None) -> None:
    """Print JSON, or write it into a file, whose folder is created.

    Raises:
        ConfigError: the file cannot be written.
    """
    from rocketpy.errors import ConfigError

    if path is None and session.as_json:
        session.output.rows((), [found])
        return
    text = json.dumps(found, indent=2, sort_keys=True)
    if path is None:
        print(text)
        return
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(f"{text}\n", "utf-8")
    except OSError as exc:
        raise ConfigError(f"{path} cannot be written: {exc.strerror or exc}") from exc
    session.output.done(f"wrote {path}", file=path)
