"""Pins the public names: a name appears or goes by a decision, never by accident."""

from __future__ import annotations

import importlib
import inspect

import pytest

import rocketpy
import rocketpy.aio
import rocketpy.spark
import rocketpy.sync

FACADE = {
    "ClientConfig",
    "ConsumeFromWhere",
    "ConsumeResult",
    "LatencyTable",
    "MQClientInstance",
    "Message",
    "MessageExt",
    "MessageModel",
    "MessageQueue",
    "Producer",
    "ProducerConfig",
    "PushConsumer",
    "PushConsumerConfig",
    "RetryLater",
    "SendManyResult",
    "SendResult",
    "SendStatus",
}
"""What the blocking and the asyncio surface export."""

PUBLIC: dict[str, set[str]] = {
    "rocketpy": {
        "BrokerError",
        "BrokerUnreachableError",
        "ClientClosedError",
        "ClientConfig",
        "ConfigError",
        "ConnectError",
        "ConnectionLostError",
        "ConsumeFromWhere",
        "ConsumeResult",
        "FlowControlError",
        "InvalidParameterError",
        "LatencyTable",
        "LocalProtocolError",
        "MQClientInstance",
        "Message",
        "MessageDecodeError",
        "MessageExt",
        "MessageIllegalError",
        "MessageModel",
        "MessageQueue",
        "NameServerUnreachableError",
        "NoPermissionError",
        "OffsetMessageId",
        "Producer",
        "ProducerConfig",
        "ProtocolError",
        "PushConsumer",
        "PushConsumerConfig",
        "QueryNotFoundError",
        "RemoteProtocolError",
        "RequestCodeNotSupportedError",
        "RequestTimeoutError",
        "RetryLater",
        "RocketMQError",
        "RouteNotFoundError",
        "RowError",
        "SendAttempt",
        "SendError",
        "SendManyError",
        "SendManyResult",
        "SendResult",
        "SendStatus",
        "SerializationError",
        "ServiceCrashedError",
        "ServiceNotAvailableError",
        "SubscriptionGroupNotExistError",
        "SystemBusyError",
        "TooManyRequestsError",
        "TopicNotExistError",
        "TopicNotFoundError",
        "TopicNotWritableError",
        "TransportError",
        "UniqueId",
        "__version__",
        "by_hash",
        "by_random",
        "decode_offset_message_id",
        "decode_unique_id",
    },
    "rocketpy.aio": FACADE,
    "rocketpy.sync": FACADE,
    "rocketpy.serialization": {
        "BinarySerializer",
        "JsonSerializer",
        "MsgpackSerializer",
        "Serializer",
        "StringSerializer",
        "serializer",
    },
    "rocketpy.spark": {"Counts", "Origin", "Sink", "SinkConfig", "archive", "provenance_of", "sink"},
    "rocketpy_broker_sim": {
        "AsyncioLocalCluster",
        "BlockingLocalCluster",
        "LocalCluster",
        "WaitTimeoutError",
        "__version__",
        "open_broker",
        "open_name_server",
    },
}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names(module: str) -> None:
    assert set(importlib.import_module(module).__all__) == PUBLIC[module]


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_exist_once_and_resolve(module: str) -> None:
    names = importlib.import_module(module).__all__
    assert len(names) == len(set(names))
    for public in names:
        assert hasattr(importlib.import_module(module), public), f"{module}.{public}"


# --- the surfaces: the same names and parameters -------------------------------------------------------

# What only a client, or a surface built on top, calls.
INTERNAL = {
    "Producer": {
        "check_open", "checked_timeout", "client_closing", "ensure_route", "on_route_changed", "prepare_many",
        "start_send",
    },
    "PushConsumer": {
        "client_closing", "consumer_data", "in_listener", "on_route_changed", "rebalance_now", "topics",
    },
    "MQClientInstance": {
        "check_here", "check_open", "register_consumer", "register_producer", "unregister_consumer",
        "unregister_producer",
    },
}  # fmt: skip
BLOCKING_ONLY = {"start", "close", "send_soon"}
"""The exceptions: blocking code may have no block to open and close things in, and no task to await a send in."""
ASYNCIO_ONLY = {"start", "aclose"}
"""Tasks that open and close may be different ones there, which trio's nurseries do not allow."""
FACADE_ONLY = {"trio_client"}
"""For the roles that share a client."""
ATTRIBUTES = {"config", "client_id"}
"""Set in `__init__` on the trio surface, so the class does not show them."""
AWAITED = " | AsyncIterable[Message]"
"""What may be given besides where there is something to await it with."""
RUNNERS = {"plain_runner", "async_runner"}
"""Where listeners are called: for a surface to choose, not for its users."""
SURFACES = {"trio": rocketpy, "blocking": rocketpy.sync, "asyncio": rocketpy.aio}


def public(surface: str, cls: str) -> set[str]:
    """The names of a class that are for users."""
    names = {name for name in dir(getattr(SURFACES[surface], cls)) if not name.startswith("_")} - ATTRIBUTES
    return names - (INTERNAL[cls] if surface == "trio" else FACADE_ONLY)


def signature(surface: str, cls: str, method: str) -> tuple[list[tuple[object, ...]], object]:
    """Names, kinds, defaults and annotations of the parameters, and what is returned."""
    found = inspect.signature(getattr(getattr(SURFACES[surface], cls), method))
    parameters = [
        (each.name, each.kind, each.default, str(each.annotation).removesuffix(AWAITED))
        for each in found.parameters.values()
        if each.name not in RUNNERS
    ]
    return parameters, found.return_annotation


def methods(cls: str) -> list[str]:
    trio = getattr(rocketpy, cls)
    return ["__init__", *sorted(name for name in public("trio", cls) if callable(getattr(trio, name)))]


@pytest.mark.parametrize("cls", INTERNAL)
def test_the_surfaces_have_the_same_names(cls: str) -> None:
    assert public("trio", cls) == public("asyncio", cls) - ASYNCIO_ONLY == public("blocking", cls) - BLOCKING_ONLY


@pytest.mark.parametrize("surface", ["blocking", "asyncio"])
@pytest.mark.parametrize(("cls", "method"), [(cls, method) for cls in INTERNAL for method in methods(cls)])
def test_the_surfaces_have_the_same_parameters(surface: str, cls: str, method: str) -> None:
    assert signature(surface, cls, method) == signature("trio", cls, method)


@pytest.mark.parametrize(("cls", "method"), [(cls, method) for cls in INTERNAL for method in methods(cls)])
def test_what_is_awaited_on_trio_is_awaited_on_asyncio(cls: str, method: str) -> None:
    on = {name: inspect.iscoroutinefunction(getattr(getattr(SURFACES[name], cls), method)) for name in SURFACES}
    assert on["asyncio"] == on["trio"]
    assert not on["blocking"]


@pytest.mark.parametrize("cls", INTERNAL)
def test_properties_are_properties_on_every_surface(cls: str) -> None:
    trio = getattr(rocketpy, cls)
    properties = {name for name in public("trio", cls) if isinstance(getattr(trio, name), property)} | ATTRIBUTES
    for surface in ("blocking", "asyncio"):
        facade = getattr(SURFACES[surface], cls)
        for name in properties & set(dir(facade)):
            assert isinstance(getattr(facade, name), property), f"{surface} {cls}.{name}"


@pytest.mark.parametrize(
    "cls", ["Message", "MessageExt", "ProducerConfig", "SendResult", "ConsumeResult", "RetryLater"]
)
def test_values_are_the_very_same_on_every_surface(cls: str) -> None:
    assert getattr(rocketpy.aio, cls) is getattr(rocketpy.sync, cls) is getattr(rocketpy, cls)
