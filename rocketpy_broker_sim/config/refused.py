"""Keys of Apache's that would be unsafe to ignore: a server with such a key does not start. Pure.

Somebody who sets such a key relies on it: on access control, on replicas, on how name servers are found. A value that
changes nothing (false, or the only kind of store) is accepted.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rocketpy.errors import ConfigError

__all__ = ["BROKER_REFUSED", "NAMESRV_REFUSED", "NOT_OF_SERVERS", "Refusal", "refuse"]


@attrs.frozen
class Refusal:
    """Why a key is refused, and when it is not."""

    what: str
    """The feature that it asks for."""
    advice: str
    """What to do instead."""
    harmless: frozenset[str] = attrs.field(default=frozenset({"false"}))
    """Values that are accepted, in lower case; an empty value always is."""

    def refuses(self, value: str) -> bool:
        """Whether this value of the key is refused."""
        return bool(value.strip()) and value.strip().lower() not in self.harmless


def _only(*values: str) -> frozenset[str]:
    return frozenset(values)


_WITHOUT = "remove the key to start without"
_OPEN = "remove the key to start without, and make sure that only trusted machines can reach the port"
_MASTER = "start a master: brokerRole=ASYNC_MASTER, brokerId=0"
_PLAIN = "every broker is a master without replicas; remove the key"
_ADDRESSES = "list them in namesrvAddr=host:9876"
_TLS = Refusal("TLS on connections to name servers", _WITHOUT)
_SOCKS = Refusal("a SOCKS proxy", "remove the key, and connect to the name servers directly", _only("{}"))

BROKER_REFUSED: Mapping[str, Refusal] = {
    "aclEnable": Refusal("access control", _OPEN),
    "authenticationEnabled": Refusal("authentication", _OPEN),
    "authorizationEnabled": Refusal("authorization", _OPEN),
    "brokerId": Refusal("a replica (any number but 0)", _MASTER, _only("0")),
    "brokerRole": Refusal("a replica (SLAVE)", _MASTER, _only("async_master", "sync_master")),
    "defaultMessageRequestMode": Refusal("consumption by pop", "remove the key: consumers pull", _only("pull")),
    "enableControllerMode": Refusal("controller mode", _PLAIN),
    "enableDLegerCommitLog": Refusal("replication by DLedger", _PLAIN),
    "enableLmq": Refusal("light message queues", _WITHOUT),
    "enableMultiDispatch": Refusal("dispatch to several queues", _WITHOUT),
    "fetchNameSrvAddrByDnsLookup": Refusal("finding name servers by DNS", _ADDRESSES),
    "fetchNamesrvAddrByAddressServer": Refusal("finding name servers over HTTP", _ADDRESSES),
    "inSyncReplicas": Refusal("replicas to wait for", _PLAIN, _only("0", "1")),
    "messageStorePlugIn": Refusal("a plug-in of the store, which is a Java class", _WITHOUT, _only()),
    "minInSyncReplicas": Refusal("replicas to wait for", _PLAIN, _only("0", "1")),
    "readOnlyCommitLogStorePaths": Refusal("a commit log in several places", "keep it in one place", _only()),
    "socksProxyConfig": _SOCKS,
    "storeType": Refusal("a store other than files", "storeType=default keeps messages in files", _only("default")),
    "useTLS": _TLS,
}
"""Keys of a broker's file that are refused."""

NAMESRV_REFUSED: Mapping[str, Refusal] = {
    "clusterTest": Refusal("asking another environment for routes", _WITHOUT),
    "enableControllerInNamesrv": Refusal("a controller inside the name server", _WITHOUT),
    "socksProxyConfig": _SOCKS,
    "useTLS": _TLS,
}
"""Keys of a name server's file that are refused."""

_PROXY = Refusal("the gRPC proxy", "clients speak the remoting protocol with the broker; remove the key", _only())
NOT_OF_SERVERS: Mapping[str, Refusal] = dict.fromkeys(
    ("proxyMode", "rocketMQClusterName", "grpcServerPort", "enableProxy"), _PROXY
)
"""Keys of a proxy's configuration file."""


def refuse(key: str, value: str, refused: Mapping[str, Refusal]) -> None:
    """Refuse a key that asks for a feature that does not exist here.

    Raises:
        ConfigError: the key is refused; the text names the key, its value, and what to do instead.
    """
    refusal = refused.get(key)
    if refusal is not None and refusal.refuses(value):
        raise ConfigError(f"{key}={value}: {refusal.what} is not available here; {refusal.advice}")
