"""Name servers: their settings and their key-value configuration."""

from __future__ import annotations

from collections.abc import Mapping

from rocketpy.admin.ordering import order_text
from rocketpy.admin.part import Part, check_texts
from rocketpy.admin.results.servers import ServerConfig
from rocketpy.admin.settings import check_taken, texts
from rocketpy.client.api import name_server as name_server_api
from rocketpy.client.api import server as server_api
from rocketpy.errors import ConfigError
from rocketpy.wire.names import check_topic

__all__ = ["NameServers"]


class NameServers(Part):
    """The name servers: ``admin.name_servers``. They do not share data, so each change is sent to all of them."""

    __slots__ = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """Host and port of each name server of this client."""
        return self._usable().client.name_servers.addresses

    # --- settings -------------------------------------------------------------------------------------

    async def config(self) -> tuple[ServerConfig, ...]:
        """The settings of each name server.

        Raises:
            BrokersFailedError: some name servers did not answer; `result` has the settings of the others.
            RocketMQError: the only name server refused or did not answer.
        """
        servers = self._usable()

        async def ask(name: str, address: str) -> ServerConfig:
            found = await server_api.name_server_config(servers.client.pool, address, timeout=servers.timeout)
            return ServerConfig(server=name, settings=found)

        return await servers.each(
            {each: each for each in self.addresses},
            ask,
            lambda found: tuple(found.values()),
            doing="asking for the settings of the name servers",
        )

    async def update_config(self, settings: Mapping[str, str | int | bool | float]) -> None:
        """Change settings of all name servers. They refuse to change some keys. The settings are read back.

        Args:
            settings: values by Java's keys, such as ``{"orderMessageEnable": True}``.

        Raises:
            ConfigError: there are no settings, or a key or a value cannot be used.
            BrokerError: the only name server refuses a key or a value, and nothing was changed; or it has ignored one.
            BrokersFailedError: some name servers did not change them; the others did.
            RocketMQError: the only name server refused or did not answer.
        """
        values = texts(settings)
        servers = self._usable()

        async def put(name: str, address: str) -> None:
            pool, timeout = servers.client.pool, servers.timeout
            await server_api.update_config(pool, address, values, of_name_server=True, timeout=timeout)
            check_taken(values, await server_api.name_server_config(pool, address, timeout=timeout), address)

        await servers.each(
            {each: each for each in self.addresses},
            put,
            lambda found: None,
            doing=f"changing {', '.join(values)} of the name servers",
        )

    # --- key-value configuration ----------------------------------------------------------------------

    async def get(self, namespace: str, key: str) -> str | None:
        """The value of a key; None if it is not set.

        Raises:
            ConfigError: an argument is not a non-empty text.
            NameServerUnreachableError: no name server answered.
        """
        check_texts(namespace=namespace, key=key)
        return await name_server_api.get_kv_config(self._usable().client.name_servers, namespace, key)

    async def list(self, namespace: str) -> Mapping[str, str]:
        """All keys of a namespace with their values; empty if there is no such namespace.

        Raises:
            ConfigError: the namespace is not a non-empty text.
            NameServerUnreachableError: no name server answered.
        """
        check_texts(namespace=namespace)
        return await name_server_api.kv_list(self._usable().client.name_servers, namespace)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set a key on all name servers.

        Raises:
            ConfigError: an argument is not a non-empty text.
            NameServerUnreachableError: a name server did not answer; the others have stored the value.
            BrokerError: a name server refused.
        """
        check_texts(namespace=namespace, key=key, value=value)
        await name_server_api.put_kv_config(self._usable().client.name_servers, namespace, key, value)

    async def delete(self, namespace: str, key: str) -> None:
        """Delete a key on all name servers. It is no error if the key is not set.

        Raises:
            ConfigError: an argument is not a non-empty text.
            NameServerUnreachableError: a name server did not answer; the others have deleted the key.
            BrokerError: a name server refused.
        """
        check_texts(namespace=namespace, key=key)
        await name_server_api.delete_kv_config(self._usable().client.name_servers, namespace, key)

    async def set_order(self, topic: str, queues: Mapping[str, int] | None) -> None:
        """Set the order configuration of a topic, the queues that clients keep using while a broker is down.

        Args:
            topic: the topic.
            queues: the number of queues of each broker, by broker name; None deletes the configuration.

        Raises:
            ConfigError: an argument cannot be used.
            NameServerUnreachableError: a name server did not answer; the others have stored the value.
            BrokerError: a name server refused.
        """
        check_topic(topic)
        namespace = name_server_api.ORDER_TOPIC_CONFIG
        if queues is None:
            await self.delete(namespace, topic)
            return
        if not _is_order(queues):
            raise ConfigError(f"queues must map names of brokers to numbers of 1 or more, not {queues!r:.100}")
        await self.put(namespace, topic, order_text(queues.items()))


def _is_order(queues: object) -> bool:
    """Whether these are numbers of queues by broker name."""
    if not isinstance(queues, Mapping) or not queues:
        return False
    names = all(isinstance(name, str) and name != "" and not set(name) & set(":;") for name in queues)
    return names and all(type(number) is int and number > 0 for number in queues.values())
