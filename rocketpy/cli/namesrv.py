"""rocketpy namesrv: inspect and configure name servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocketpy.cli.broker import show_settings
from rocketpy.cli.command import Group
from rocketpy.cli.options import yes_option
from rocketpy.cli.output import Column, named
from rocketpy.cli.values import pairs

if TYPE_CHECKING:
    from rocketpy.cli.session import Session

__all__ = ["namesrv"]

_KEYS = (named("key", "key"), Column("value", lambda row: row["value"]))
_ORDER = "ORDER_TOPIC_CONFIG"
"""The namespace of order configurations."""


@click.group(cls=Group)
def namesrv() -> None:
    """Inspect and configure name servers."""


@namesrv.command("list")
@click.pass_obj
def list_servers(session: Session) -> None:
    """List the addresses of the name servers."""
    with session.admin() as admin:
        found = admin.name_servers.addresses
    session.output.rows([named("address", "address")], ({"address": each} for each in found))


@namesrv.command("config")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.pass_obj
def config(session: Session, keys: tuple[str, ...]) -> None:
    """Show settings of each name server, all or some, by Java's keys."""
    with session.admin() as admin:
        found = session.partly(admin.name_servers.config)
    for number, each in enumerate(found):
        if len(found) > 1:
            session.output.note(f"{'' if not number else chr(10)}{each.server}")
        show_settings(session, {"nameServer": each.server}, each.settings, keys)


@namesrv.command("update-config")
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
@click.pass_obj
def update_config(session: Session, settings: tuple[str, ...]) -> None:
    """Change settings of all name servers by Java's keys."""
    values = pairs("a setting", settings)
    with session.admin() as admin:
        admin.name_servers.update_config(values)
    session.output.done(f"changed {', '.join(values)} of all name servers", changed=values)


@namesrv.command("order")
@click.argument("topic")
@click.argument("queues", nargs=-1, metavar="[BROKER=NUMBER]...")
@click.option("--delete", is_flag=True, help="Delete the configuration.")
@yes_option
@click.pass_obj
def order(session: Session, topic: str, queues: tuple[str, ...], delete: bool, yes: bool) -> None:
    """Show or set the queues of a topic that clients keep using while a broker is down."""
    from rocketpy.errors import ConfigError

    if delete and queues:
        raise ConfigError("pass BROKER=NUMBER or --delete, not both")
    numbers = pairs("the queues of a broker", queues)
    if wrong := [each for each in numbers.values() if not (each.isascii() and each.isdecimal() and len(each) < 10)]:
        raise ConfigError(f"a number of queues must be a whole number, not {wrong[0]!r:.100}")
    with session.admin() as admin:
        if not delete and not queues:
            found = admin.name_servers.get(_ORDER, topic)
            session.output.rows(_KEYS, [{"key": topic, "value": found}] if found else (), empty="not set")
            return
        if delete:
            session.confirm(f"Delete the order configuration of {topic}?", yes=yes)
        admin.name_servers.set_order(topic, None if delete else {name: int(each) for name, each in numbers.items()})
    if delete:
        session.output.done(f"deleted the order configuration of {topic}", deleted=topic)
    else:
        session.output.done(f"set the order configuration of {topic} to {', '.join(queues)}", set=topic, queues=numbers)


# --- key-value configuration -----------------------------------------------------------------------------


@namesrv.group("kv", cls=Group)
def kv() -> None:
    """Show and change the key-value configuration."""


@kv.command("list")
@click.argument("namespace")
@click.pass_obj
def list_keys(session: Session, namespace: str) -> None:
    """List the keys of a namespace, such as ORDER_TOPIC_CONFIG."""
    with session.admin() as admin:
        found = admin.name_servers.list(namespace)
    rows = [{"namespace": namespace, "key": key, "value": value} for key, value in sorted(found.items())]
    session.output.rows(_KEYS, rows, empty="no keys")


@kv.command("get")
@click.argument("namespace")
@click.argument("key")
@click.pass_obj
def get(session: Session, namespace: str, key: str) -> None:
    """Show the value of a key."""
    from rocketpy.errors import ConfigError

    with session.admin() as admin:
        found = admin.name_servers.get(namespace, key)
    if found is None:
        raise ConfigError(f'{key} is not set in {namespace}; "rocketpy namesrv kv list {namespace}" shows the keys')
    session.output.done(found, namespace=namespace, key=key, value=found)


@kv.command("put")
@click.argument("namespace")
@click.argument("key")
@click.argument("value")
@click.pass_obj
def put(session: Session, namespace: str, key: str, value: str) -> None:
    """Set a key on all name servers."""
    with session.admin() as admin:
        admin.name_servers.put(namespace, key, value)
    session.output.done(f"set {key} in {namespace}", namespace=namespace, key=key, value=value)


@kv.command("delete")
@click.argument("namespace")
@click.argument("key")
@yes_option
@click.pass_obj
def delete(session: Session, namespace: str, key: str, yes: bool) -> None:
    """Delete a key on all name servers."""
    with session.admin() as admin:
        session.confirm(f"Delete {key} in {namespace}?", yes=yes)
        admin.name_servers.delete(namespace, key)
    session.output.done(f"deleted {key} in {namespace}", namespace=namespace, deleted=key)
