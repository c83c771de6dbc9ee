"""Names of settings in other clients, and the settings that correspond to them here. Pure.

The names are those of Kafka's clients and of rocketmq-client-python, and some that people guess. Like
`rocketpy.config.advice`, this module is loaded only when a program uses a name that is not a setting.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

__all__ = ["FOREIGN", "foreign_advice"]

_NAMESRV: Final = ("namesrv",), "the addresses of name servers, which know the brokers"
_GROUP: Final = ("group",), "the first argument"
_BATCH: Final = ("batch_max_bytes", "consume_message_batch_max_size", "pull_batch_size"), ""
_POLL: Final = ("pull_batch_size",), ""
_CLIENT_ID: Final = ("instance_name",), "the client id is made of the address of the host and of it"
_MODEL: Final = ("message_model",), '"broadcasting" or "clustering"'
_TLS: Final = (), "there is no TLS yet"
_THREADS: Final = ("consume_thread_max",), ""
_SUBSCRIBE: Final = (), "give it to subscribe(), or to the message"
_RETRIES: Final = ("retry_times_when_send_failed", "max_reconsume_times"), ""

FOREIGN: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "bootstrap_servers": _NAMESRV,
    "brokers": _NAMESRV,
    "servers": _NAMESRV,
    "name_server": _NAMESRV,
    "name_servers": _NAMESRV,
    "name_server_addr": _NAMESRV,
    "name_server_address": _NAMESRV,
    "name_srv_addr": _NAMESRV,
    "namesrv_addr": _NAMESRV,
    "set_namesrv_addr": _NAMESRV,
    "group_id": _GROUP,
    "group_name": _GROUP,
    "producer_group": _GROUP,
    "consumer_group": _GROUP,
    "client_id": _CLIENT_ID,
    "set_instance_name": _CLIENT_ID,
    "linger_ms": (("linger",), "in seconds"),
    "batch_size": _BATCH,
    "compression_type": (("compress_type",), ""),
    "compression_level": (("compress_level",), ""),
    "value_serializer": (("serializer",), ""),
    "value_deserializer": (("serializers",), ""),
    "request_timeout_ms": (("send_timeout", "request_timeout"), "in seconds"),
    "delivery_timeout_ms": (("send_timeout",), "in seconds"),
    "send_msg_timeout": (("send_timeout",), "in seconds"),
    "timeout": (("send_timeout", "request_timeout"), "in seconds"),
    "max_request_size": (("max_message_size",), ""),
    "buffer_memory": (("back_pressure_for_async_send_size",), ""),
    "max_in_flight": (("back_pressure_for_async_send_num",), "messages under way"),
    "max_in_flight_requests_per_connection": (("back_pressure_for_async_send_num",), "messages under way"),
    "retries": _RETRIES,
    "max_retries": _RETRIES,
    "max_poll_records": _POLL,
    "max_poll_interval_ms": (("consume_timeout",), "in seconds"),
    "auto_offset_reset": (("consume_from_where",), '"earliest", "latest" or "timestamp"'),
    "enable_auto_commit": (("auto_commit",), ""),
    "thread_count": _THREADS,
    "set_thread_count": _THREADS,
    "threads": _THREADS,
    "max_workers": _THREADS,
    "concurrency": _THREADS,
    "broadcast": _MODEL,
    "broadcasting": _MODEL,
    "topic": _SUBSCRIBE,
    "tags": _SUBSCRIBE,
    "listener": ((), "give it to subscribe()"),
    "tls": _TLS,
    "ssl": _TLS,
    "acks": (
        (),
        "the broker decides when it acknowledges, by flushDiskType and brokerRole; send_oneway waits for no answer",
    ),
}
"""Name -> the corresponding settings, of which each role has some, and a note about them."""


def foreign_advice(name: str, known: Collection[str]) -> str:
    """Advice for one of these names, if it corresponds to a setting in `known`; otherwise empty."""
    settings, note = FOREIGN.get(name.lower().replace(".", "_"), ((), ""))
    here = [setting for setting in settings if setting in known]
    if not here:
        return "" if settings else note
    said = f"it is called {' or '.join(here)} here"
    return f"{said}: {note}" if note else said
