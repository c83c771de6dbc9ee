"""rocketpy-broker: a broker as a process. Plays the part of mqbroker and BrokerStartup."""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError
from rocketpy_broker_sim.broker.opening import name_server_list, open_broker
from rocketpy_broker_sim.cli.options import IMPORTANT, broker_settings, metrics_line, print_settings, server_parser
from rocketpy_broker_sim.cli.running import Boot, run_command, serve

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.broker import Broker
    from rocketpy_broker_sim.config import BrokerConfig

__all__ = ["main"]

PROGRAM = "rocketpy-broker"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a broker until it is told to stop; returns the exit status."""
    parser = server_parser(PROGRAM, "Run a RocketMQ broker.")
    parser.add_argument("-m", "--printImportantConfig", action="store_true", help="print the main settings and end")
    parser.add_argument("--enable-proxy", dest="proxy", action="store_true", help=SUPPRESS)
    parser.add_argument("-pm", "--proxyMode", "-pc", "--proxyConfigPath", dest="proxy", help=SUPPRESS)
    options = parser.parse_args(arguments)

    def body() -> int:
        if options.proxy:
            raise ConfigError(
                "--enable-proxy, -pm, -pc: the gRPC proxy is not available here; clients speak the remoting protocol"
            )
        config, warnings = broker_settings(options)
        name_server_list(config.namesrv_addr)
        if options.printConfigItem or options.printImportantConfig:
            print_settings(config, warnings, () if options.printConfigItem else IMPORTANT)
            return 0
        return serve(partial(_open, config), warnings)

    return run_command(PROGRAM, options.log, body, log_level=options.log_level)


@asynccontextmanager
async def _open(config: BrokerConfig) -> AsyncIterator[Boot]:
    async with open_broker(config) as broker:
        yield Boot("broker", config.broker_name, broker.address, _line(broker))


def _line(broker: Broker) -> str:
    config = broker.config
    return (
        f"{PROGRAM} boot success: {config.broker_name} serves on {broker.address}, {_registered(broker)}, "
        f"store {os.path.expanduser(config.store.store_path_root_dir)}{metrics_line(broker.metrics_address)}"
    )


def _registered(broker: Broker) -> str:
    wanted = name_server_list(broker.config.namesrv_addr)
    if not wanted:
        return "no name server"
    known = broker.registration.registered_with if broker.registration is not None else []
    notes = (address if address in known else f"{address} (not reached yet)" for address in wanted)
    return f"name server {';'.join(notes)}"


if __name__ == "__main__":
    sys.exit(main())
