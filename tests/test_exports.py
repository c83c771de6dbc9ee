"""Pins the public names: a name appears or goes by a decision, never by accident."""

from __future__ import annotations

import importlib
import inspect

import pytest

import rocketpy
import rocketpy.sync

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
        "SendAttempt",
        "SendError",
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
        "__version__",
        "by_hash",
        "by_random",
    },
    "rocketpy.sync": {
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
        "SendResult",
        "SendStatus",
    },
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
    "Producer": {"client_closing", "on_route_changed", "prepare", "start_send", "tries"},
    "PushConsumer": {"client_closing", "consumer_data", "on_route_changed", "rebalance_now", "topics"},
    "MQClientInstance": {
        "check_open", "register_consumer", "register_producer", "unregister_consumer", "unregister_producer",
    },
}  # fmt: skip
BLOCKING_ONLY = {"start", "close", "send_soon", "trio_client"}
ATTRIBUTES = {"config", "client_id"}
"""Set in `__init__` on the trio surface, so the class does not show them."""
RUNNERS = {"plain_runner", "async_runner"}
"""Where listeners are called: for a surface to choose, not for its users."""


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")} - ATTRIBUTES


def parameters(function: object) -> list[inspect.Parameter]:
    return [each for each in inspect.signature(function).parameters.values() if each.name not in RUNNERS]


@pytest.mark.parametrize("cls", INTERNAL)
def test_the_blocking_surface_has_the_names_and_parameters_of_the_trio_one(cls: str) -> None:
    ours, theirs = getattr(rocketpy, cls), getattr(rocketpy.sync, cls)
    assert public(ours) - INTERNAL[cls] == public(theirs) - BLOCKING_ONLY
    for name in ["__init__", *sorted(public(ours) & public(theirs))]:
        if callable(getattr(ours, name)):
            assert parameters(getattr(ours, name)) == parameters(getattr(theirs, name)), name
