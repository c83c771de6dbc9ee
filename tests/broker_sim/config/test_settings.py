"""Settings as values: what is the same is equal, and they are shown with every field."""

from __future__ import annotations

import attrs
import pytest

from rocketpy_broker_sim.config import BrokerConfig, MessageStoreConfig, MetricsConfig
from rocketpy_broker_sim.config.namesrv import NamesrvConfig
from rocketpy_broker_sim.config.server import NettyServerConfig
from rocketpy_broker_sim.config.settings import Settings

KINDS = [BrokerConfig, MessageStoreConfig, MetricsConfig, NamesrvConfig, NettyServerConfig]


@pytest.mark.parametrize("kind", KINDS)
def test_settings_are_equal_when_every_field_is(kind: type[Settings]) -> None:
    one, other = kind(), kind()
    assert one == other
    assert one != object()
    port = next(field.name for field in attrs.fields(kind) if type(getattr(one, field.name)) is int)
    setattr(other, port, getattr(one, port) + 1)
    assert one != other
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


@pytest.mark.parametrize("kind", KINDS)
def test_settings_show_every_field(kind: type[Settings]) -> None:
    shown = repr(kind())
    assert shown.startswith(f"{kind.__name__}(")
    assert all(f"{field.name}=" in shown for field in attrs.fields(kind))
