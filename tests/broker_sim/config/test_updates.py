"""Only harmless keys change at run time, within bounds, all or none."""

from __future__ import annotations

import pytest

from rocketpy.errors import InvalidParameterError, NoPermissionError
from rocketpy_broker_sim.config import BROKER_UPDATES, NAMESRV_UPDATES, BrokerConfig, NamesrvConfig, update_settings
from rocketpy_broker_sim.config.keys import fields_by_key


def parts(config: BrokerConfig) -> list[object]:
    return [config, config.store, config.server]


def test_allowed_keys_change() -> None:
    config = BrokerConfig()
    update_settings(parts(config), {"autoCreateTopicEnable": "false", "waitTimeMillsInSendQueue": "7"}, BROKER_UPDATES)
    assert (config.auto_create_topic_enable, config.wait_time_mills_in_send_queue) == (False, 7)


@pytest.mark.parametrize(
    "key",
    ["storePathRootDir", "brokerConfigPath", "rocketmqHome", "listenPort", "AUTOCREATETOPICENABLE", "x", "namesrvAddr"],
)
def test_threat_A2_every_other_key_is_refused_and_nothing_changes(key: str) -> None:
    config = BrokerConfig()
    with pytest.raises(NoPermissionError):
        update_settings(parts(config), {"traceOn": "false", key: "1"}, BROKER_UPDATES)
    assert config == BrokerConfig()


def test_a_value_out_of_bounds_or_of_the_wrong_kind_is_refused() -> None:
    config = BrokerConfig()
    for value in ("8", "-1", "x"):
        with pytest.raises(InvalidParameterError):
            update_settings(parts(config), {"brokerPermission": value}, BROKER_UPDATES)
    assert config == BrokerConfig()


def test_no_listed_key_is_a_path_or_unknown() -> None:
    known = {key for part in parts(BrokerConfig()) for key in fields_by_key(type(part))}
    assert set(BROKER_UPDATES) <= known
    assert set(NAMESRV_UPDATES) <= set(fields_by_key(NamesrvConfig))
    assert not [key for key in {*BROKER_UPDATES, *NAMESRV_UPDATES} if "path" in key.lower() or "addr" in key.lower()]
