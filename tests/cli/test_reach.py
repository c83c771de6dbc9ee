"""Every call of Admin is in reach of some command: what each is reached by, and that it is."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

import click
import pytest

import rocketpy.admin
from tests.cli.test_frame import ALL
from tests.rules import listed

PARTS = {
    "topics": "Topics",
    "groups": "Groups",
    "offsets": "Offsets",
    "messages": "Messages",
    "consumers": "Consumers",
    "producers": "Producers",
    "brokers": "Brokers",
    "name_servers": "NameServers",
}

INTEROP = Path(__file__).parents[1] / "interop"
ASKS_NOBODY = {"completion", "mqadmin"}
"""Commands that ask no server."""

REACHED = {
    "topics.list": "topic list",
    "topics.get": "topic get",
    "topics.get_all": "cluster export metadata",
    "topics.route": "topic route",
    "topics.traffic": "topic traffic",
    "topics.stats": "topic stats",
    "topics.create": "topic create",
    "topics.update": "topic update",
    "topics.delete": "topic delete",
    "groups.list": "group list",
    "groups.get": "group get",
    "groups.get_all": "cluster export metadata",
    "groups.create": "group create",
    "groups.update": "group update",
    "groups.delete": "group delete",
    "groups.set_readable": "group set-readable",
    "offsets.lag": "lag",
    "offsets.lags": "lag",
    "offsets.at": "topic offsets",
    "offsets.reset": "group reset",
    "offsets.commit": "group commit",
    "offsets.clone": "group clone",
    "consumers.connections": "group members",
    "consumers.of_topic": "topic groups",
    "consumers.topics": "group topics",
    "consumers.state": "group state",
    "consumers.offsets": "group offsets",
    "consumers.consume": "message consume",
    "messages.view": "message view",
    "messages.query": "message query",
    "messages.query_unique": "message query",
    "messages.read": "message read",
    "messages.entries": "message entries",
    "messages.by_time": "message by-time",
    "messages.resend": "message resend",
    "messages.track": "message track",
    "messages.trace": "trace",
    "messages.dead_letters": "dlq list",
    "messages.replay_dead_letters": "dlq replay",
    "producers.connections": "producer connections",
    "producers.list": "producer list",
    "brokers.list": "broker list",
    "brokers.config": "broker config",
    "brokers.runtime": "broker runtime",
    "brokers.runtimes": "broker runtime",
    "brokers.stats": "broker stats",
    "brokers.replication": "broker replication",
    "brokers.update_config": "broker update-config",
    "brokers.set_writable": "broker set-writable",
    "brokers.delete_expired_files": "broker delete-expired-files",
    "brokers.delete_expired_queues": "broker delete-expired-queues",
    "brokers.delete_unused_queues": "broker delete-unused-queues",
    "name_servers.addresses": "namesrv list",
    "name_servers.config": "namesrv config",
    "name_servers.update_config": "namesrv update-config",
    "name_servers.get": "namesrv kv get",
    "name_servers.list": "namesrv kv list",
    "name_servers.put": "namesrv kv put",
    "name_servers.delete": "namesrv kv delete",
    "name_servers.set_order": "namesrv order",
}
"""The command that makes each call."""


def calls() -> set[str]:
    """Every call of Admin, by its part."""
    return {
        f"{part}.{name}"
        for part, kind in PARTS.items()
        for name in dir(getattr(rocketpy.admin, kind))
        if not name.startswith("_")
    }


def made(command: click.Command) -> set[str]:
    """The calls in the module of a command: ``admin.topics.list``, or a name that it looks up."""
    path = inspect.getsourcefile(sys.modules[command.callback.__module__])
    found: set[str] = set()
    for node in ast.walk(ast.parse(Path(path).read_text("utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            found.add(f"{node.value.attr}.{node.attr}")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(f"brokers.{node.value}")  # of the commands that clean up, which are made alike
    return found


def test_every_call_of_admin_is_in_reach_of_a_command() -> None:
    listed(calls() - REACHED.keys(), "give each of these calls a command, and a line in REACHED")
    listed(REACHED.keys() - calls(), "these calls are gone")


@pytest.mark.parametrize("call", sorted(REACHED))
def test_the_command_makes_the_call(call: str) -> None:
    commands = dict(ALL)
    assert REACHED[call] in commands
    assert call in made(commands[REACHED[call]])


def test_every_command_is_tried_on_servers_of_apache() -> None:
    tried = "".join(file.read_text("utf-8") for file in INTEROP.glob("test_cli*.py"))
    commands = [name for name, command in ALL if name and not hasattr(command, "list_commands")]
    missing = [name for name in commands if '"' + name.replace(" ", '", "') + '"' not in tried]
    listed(set(missing) - ASKS_NOBODY, "try each of these commands in tests/interop/test_cli_commands.py")
