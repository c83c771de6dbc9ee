"""Ordering: the order configuration of a topic, with which clients keep using the queues of brokers that are down.

It lists the brokers with their numbers of queues, such as "broker-a:4;broker-b:4". The name servers keep it, and know
nothing of what it is about, so it has to be changed along with the topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rocketpy.client.api import name_server as name_server_api

if TYPE_CHECKING:
    from rocketpy.admin.results.topics import TopicSettings
    from rocketpy.admin.servers import Servers

__all__ = ["drop_order", "order_text", "write_order"]

_NAMESPACE = name_server_api.ORDER_TOPIC_CONFIG


def order_text(queues: Iterable[tuple[str, object]]) -> str:
    """The configuration as text, from the names of brokers and their numbers of queues."""
    return ";".join(f"{name}:{number}" for name, number in sorted(queues))


async def write_order(servers: Servers, topic: str, made: Iterable[TopicSettings], order: bool | None) -> None:
    """Bring the configuration up to date for the brokers whose settings were changed. Entries of others stay.

    Args:
        servers: the servers.
        topic: the topic.
        made: its settings on these brokers, which may be given by their addresses.
        order: whether these brokers belong to the configuration; None for those that are in it already. The settings do
            not tell: brokers of 4.x do not store whether a topic is ordered.

    Raises:
        NameServerUnreachableError: a name server did not answer; the others have stored the configuration.
        BrokerError: a name server refused.
    """
    before = await _entries(servers, topic)
    after = dict(before)
    info = None
    for each in made:
        name: str | None = each.broker
        if ":" in each.broker:
            info = info or await servers.cluster_info()
            name = servers.name_of(info, each.broker)
        if name is None:  # not registered yet: clients could not find it by its name either
            continue
        if name in before if order is None else order:
            after[name] = str(each.write_queues)
        else:
            after.pop(name, None)
    await _store(servers, topic, before, after)


async def drop_order(servers: Servers, topic: str, brokers: Iterable[str] | None) -> None:
    """Remove brokers from the configuration, or all of it if `brokers` is None.

    Raises:
        NameServerUnreachableError: a name server did not answer; the others have changed it.
        BrokerError: a name server refused.
    """
    before = await _entries(servers, topic)
    gone = before.keys() if brokers is None else set(brokers)
    await _store(servers, topic, before, {name: number for name, number in before.items() if name not in gone})


async def _entries(servers: Servers, topic: str) -> dict[str, str]:
    """The numbers of queues by broker name, as text; what has another form is left out, as clients cannot read it."""
    text = await name_server_api.get_kv_config(servers.client.name_servers, _NAMESPACE, topic)
    parts = (part.strip().rpartition(":") for part in (text or "").split(";"))
    return {name: number for name, colon, number in parts if colon and name}


async def _store(servers: Servers, topic: str, before: dict[str, str], after: dict[str, str]) -> None:
    name_servers = servers.client.name_servers
    if not after and before:
        await name_server_api.delete_kv_config(name_servers, _NAMESPACE, topic)
    elif after != before:
        await name_server_api.put_kv_config(name_servers, _NAMESPACE, topic, order_text(after.items()))
