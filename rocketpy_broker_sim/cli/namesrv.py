"""rocketpy-namesrv: a name server as a process. Plays the part of mqnamesrv and NamesrvStartup."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from rocketpy_broker_sim.cli.options import metrics_line, name_server_settings, print_settings, server_parser
from rocketpy_broker_sim.cli.running import Boot, run_command, serve
from rocketpy_broker_sim.namesrv import open_name_server
from rocketpy_broker_sim.store.disk.real import RealStorage

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.config import NamesrvConfig

__all__ = ["main"]

PROGRAM = "rocketpy-namesrv"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a name server until it is told to stop; returns the exit status."""
    options = server_parser(PROGRAM, "Run a RocketMQ name server.").parse_args(arguments)

    def body() -> int:
        config, warnings = name_server_settings(options)
        if options.printConfigItem:
            print_settings(config, warnings)
            return 0
        storage = RealStorage(os.path.dirname(os.path.expanduser(config.kv_config_path)) or ".")
        return serve(partial(_open, config, storage), warnings)

    return run_command(PROGRAM, options.log, body, log_level=options.log_level)


@asynccontextmanager
async def _open(config: NamesrvConfig, storage: Storage) -> AsyncIterator[Boot]:
    async with open_name_server(config, storage=storage) as server:
        line = f"{PROGRAM} boot success: serves on {server.address}{metrics_line(server.metrics_address)}"
        yield Boot("namesrv", "name server", server.address, line)


if __name__ == "__main__":
    sys.exit(main())
