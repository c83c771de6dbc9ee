"""The settings as keywords are those of the configs, with the types that their converters take.

What a type checker says about wrong ones stands in `tests/typed_settings.py`, which `./dev check` gives to mypy.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from functools import reduce
from operator import or_
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs
import pytest

import rocketpy
import rocketpy.aio
import rocketpy.sync
from rocketpy import config
from rocketpy.config import typed
from rocketpy.config.observed import ObservedConfig
from rocketpy.config.sharing import SharingConfig
from rocketpy.config.tracing import TracedConfig
from rocketpy_broker_sim import AsyncioLocalCluster, BlockingLocalCluster, LocalCluster
from rocketpy_broker_sim.cluster.settings import OWN
from rocketpy_broker_sim.cluster.typed import ClusterSettings
from rocketpy_broker_sim.config import (
    BrokerConfig,
    MessageStoreConfig,
    MetricsConfig,
    NamesrvConfig,
    NettyServerConfig,
    fields_by_key,
)

SURFACES = (rocketpy, rocketpy.sync, rocketpy.aio)
CONFIGS: dict[type[Any], Any] = {
    config.ClientConfig: typed.ClientSettings,
    ObservedConfig: typed.ObservedSettings,
    TracedConfig: typed.TracedSettings,
    SharingConfig: typed.SharingSettings,
    config.ProducerConfig: typed.ProducerSettings,
    config.TransactionProducerConfig: typed.TransactionProducerSettings,
    config.PushConsumerConfig: typed.PushConsumerSettings,
    config.LitePullConsumerConfig: typed.LitePullConsumerSettings,
    config.PullConsumerConfig: typed.PullConsumerSettings,
}
NAMES = {
    "MQClientInstance": "ClientSettings",
    "replay_dead_letters": "ClientSettings",
    "Producer": "ProducerSettings",
    "TransactionProducer": "TransactionProducerSettings",
    "PushConsumer": "PushConsumerSettings",
    "LitePullConsumer": "LitePullConsumerSettings",
    "PullConsumer": "PullConsumerSettings",
}


def accepted(kind: type[Any]) -> dict[str, Any]:
    """Setting -> the type of what may be given: what its converter takes, or else what is kept."""
    hints = get_type_hints(kind)
    for field in attrs.fields(kind):
        if field.converter is not None:
            converter: Any = field.converter
            hints[field.name] = next(iter(get_type_hints(converter, localns=vars(typed)).values()))
    return {field.name: hints[field.name] for field in attrs.fields(kind) if field.name != "group"}


@pytest.mark.parametrize("kind", CONFIGS, ids=lambda kind: kind.__name__)
def test_the_keywords_are_the_settings_with_the_types_that_are_accepted(kind: type[Any]) -> None:
    assert _without_literals(get_type_hints(CONFIGS[kind])) == _without_literals(accepted(kind))
    assert not CONFIGS[kind].__required_keys__


@pytest.mark.parametrize("module", SURFACES, ids=lambda module: module.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_every_constructor_has_them(module: Any, name: str) -> None:
    assert _keywords(getattr(module, name)) == f"Unpack[{NAMES[name]}]"


@pytest.mark.parametrize("kind", [LocalCluster, BlockingLocalCluster, AsyncioLocalCluster])
def test_a_cluster_has_those_of_its_servers(kind: Callable[..., Any]) -> None:
    assert _keywords(kind) == "Unpack[ClusterSettings]"
    plain: dict[str, Any] = {}
    for each in (BrokerConfig, MessageStoreConfig, MetricsConfig, NettyServerConfig, NamesrvConfig):
        hints = get_type_hints(each)
        plain |= {name: hints[name] for name, _ in fields_by_key(each).values() if name not in OWN}
    by_name = {name: kind | str for name, kind in plain.items() if isinstance(kind, enum.EnumMeta)}
    assert _without_literals(get_type_hints(ClusterSettings)) == plain | by_name


@pytest.mark.parametrize("kind", CONFIGS, ids=lambda kind: kind.__name__)
def test_every_text_that_a_type_checker_lets_through_is_accepted(kind: type[Any]) -> None:
    group = {"group": "g"} if hasattr(kind, "group") else {}
    for name, hint in get_type_hints(CONFIGS[kind]).items():
        for literal in (each for each in get_args(hint) if get_origin(each) is Literal):
            for text in get_args(literal):
                assert getattr(kind(**group, **{name: text}), name) is not None


def _without_literals(hints: dict[str, Any]) -> dict[str, Any]:
    """The hints, with `str` for the texts that a type checker lets through."""
    return {name: _without_literal(hint) for name, hint in hints.items()}


def _without_literal(hint: Any) -> Any:
    if get_origin(hint) is Literal:
        return str
    if isinstance(hint, UnionType) or get_origin(hint) is Union:
        return reduce(or_, map(_without_literal, get_args(hint)))
    return hint


def _keywords(function: Callable[..., Any]) -> Any:
    parameters = inspect.signature(function).parameters.values()
    return next(each.annotation for each in parameters if each.kind is inspect.Parameter.VAR_KEYWORD)
