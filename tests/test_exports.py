"""Pins the public names: a name appears or goes by a decision, never by accident."""

from __future__ import annotations

import importlib

import pytest

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
    "rocketpy_broker_sim": {"BlockingLocalCluster", "LocalCluster", "__version__", "open_broker", "open_name_server"},
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
