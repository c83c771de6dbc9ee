"""The options that Java's start scripts know, and the settings that come of them.

The order is Java's: the environment (NAMESRV_ADDR), then the file of -c, then -n. With a file Java's keys and their
defaults decide, the address to listen on included; without one a server listens on this machine only.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rocketpy._version import __version__
from rocketpy.errors import ConfigError
from rocketpy_broker_sim.cli.logs import add_log_options, log
from rocketpy_broker_sim.config import (
    BrokerConfig,
    MetricsConfig,
    MetricsExporterType,
    NamesrvConfig,
    as_properties,
    format_properties,
    read_broker_properties,
    read_namesrv_properties,
)
from rocketpy_broker_sim.metrics.extra import wants_metrics

__all__ = [
    "IMPORTANT",
    "add_metrics_options",
    "broker_settings",
    "metrics_line",
    "name_server_settings",
    "print_settings",
    "server_parser",
    "text_of_file",
]

_LAST_PORT = 65_535
_KV_CONFIG = "~/namesrv/kvConfig.json"

IMPORTANT = (
    "namesrvAddr",
    "bindAddress",
    "listenPort",
    "brokerIP1",
    "brokerName",
    "brokerClusterName",
    "brokerId",
    "brokerRole",
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
    "msgTraceTopicName",
    "traceTopicEnable",
    "storePathRootDir",
    "storePathCommitLog",
    "flushDiskType",
    "flushIntervalCommitLog",
    "maxTransferBytesOnMessageInMemory",
    "maxTransferCountOnMessageInMemory",
    "maxTransferBytesOnMessageInDisk",
    "maxTransferCountOnMessageInDisk",
    "accessMessageInMemoryMaxRatio",
)
"""Keys that -m prints: those that Java calls important, as far as they mean something here, and where it listens."""


def server_parser(program: str, description: str) -> argparse.ArgumentParser:
    """A parser of the options that name server and broker share."""
    parser = argparse.ArgumentParser(prog=program, description=description, allow_abbrev=False)
    parser.add_argument("-c", "--configFile", metavar="FILE", help="settings, as key=value lines under Java's keys")
    parser.add_argument(
        "-n", "--namesrvAddr", metavar="ADDR", help='name servers, as "192.168.0.1:9876;192.168.0.2:9876"'
    )
    parser.add_argument("-p", "--printConfigItem", action="store_true", help="print all settings and end")
    add_metrics_options(parser)
    add_log_options(parser)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def add_metrics_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the port with metrics."""
    parser.add_argument(
        "--metrics-port",
        type=_port,
        metavar="PORT",
        help="show /metrics and /healthz on this port, 0 for any free one (needs the extra prometheus)",
    )
    parser.add_argument(
        "--metrics-host", metavar="ADDR", help="address of that port (default 127.0.0.1: this machine only)"
    )


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= _LAST_PORT):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {_LAST_PORT}")
    return int(text)


def metrics_line(address: str) -> str:
    """What a ready line says of the port with metrics; nothing without one."""
    return f", metrics http://{address}/metrics" if address else ""


def _set_metrics(metrics: MetricsConfig, options: argparse.Namespace) -> None:
    if options.metrics_port is not None:
        metrics.metrics_exporter_type = MetricsExporterType.PROM
        metrics.metrics_prom_exporter_port = options.metrics_port
    if options.metrics_host is not None:
        if metrics.metrics_exporter_type is not MetricsExporterType.PROM:
            raise ConfigError("--metrics-host is the address of a port with metrics: give --metrics-port too")
        metrics.metrics_prom_exporter_host = options.metrics_host
    wants_metrics(metrics)


def broker_settings(options: argparse.Namespace) -> tuple[BrokerConfig, list[str]]:
    """The settings of a broker, and what an operator should be told.

    Raises:
        ConfigError: the file cannot be read, or says what cannot be, or a package for metrics is missing.
    """
    if options.configFile is None:
        config, warnings = BrokerConfig(), list[str]()
    else:
        config, warnings = read_broker_properties(text_of_file(options.configFile), options.configFile)
    config.namesrv_addr = options.namesrvAddr or config.namesrv_addr or os.environ.get("NAMESRV_ADDR", "")
    _set_metrics(config.metrics, options)
    return config, warnings


def name_server_settings(options: argparse.Namespace) -> tuple[NamesrvConfig, list[str]]:
    """The settings of a name server, and what an operator should be told.

    Raises:
        ConfigError: the file cannot be read, or says what cannot be.
    """
    if options.configFile is None:
        config, warnings = NamesrvConfig(), list[str]()
    else:
        config, warnings = read_namesrv_properties(text_of_file(options.configFile), options.configFile)
    config.kv_config_path = config.kv_config_path or _KV_CONFIG
    _set_metrics(config.metrics, options)
    return config, warnings


def text_of_file(file: str) -> str:
    """The text of a file of settings.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        data = Path(file).expanduser().read_bytes()
    except OSError as exc:
        raise ConfigError(f"the configuration file {file} cannot be read: {exc.strerror}") from exc
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")  # what Java takes every such file for


def print_settings(
    config: BrokerConfig | NamesrvConfig, warnings: Sequence[str] = (), only: Sequence[str] = ()
) -> None:
    """Print settings under Java's keys, all or some, to standard output; what is odd about them goes to the log."""
    for warning in warnings:
        log.warning("%s", warning)
    properties: Mapping[str, str] = as_properties(config)
    if only:
        properties = {key: properties[key] for key in only}
    print(format_properties(properties), end="")
