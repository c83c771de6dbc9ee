"""Settings of the clients that a source has, given as options with the prefix ``rocketmq.``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rocketpy.config import ClientConfig
from rocketpy.errors import ConfigError
from rocketpy.spark.option_values import client_settings, redacted

__all__ = ["client_config"]

_ELSEWHERE: Final[Mapping[str, str]] = {
    "group": "use the option consumerGroup",
    "consumergroup": "use the option consumerGroup",
}


def client_config(namesrv: str | None, settings: Mapping[str, str]) -> ClientConfig:
    """The settings of the clients that a source has, on the driver and in executors.

    Args:
        namesrv: the name servers; those of the environment when None.
        settings: the rest, by folded names.

    Raises:
        ConfigError: a name is no setting, or a value cannot be used.
    """
    fields = client_settings(ClientConfig, settings, _ELSEWHERE)
    try:
        config = ClientConfig.of(None, **({} if namesrv is None else {"namesrv": namesrv}), **fields)
    except ConfigError as error:
        raise ConfigError(redacted(str(error), settings)) from None
    if not config.namesrv:
        raise ConfigError("the option namesrv is missing: give 'a:9876;b:9876', say, or set NAMESRV_ADDR on the driver")
    return config
