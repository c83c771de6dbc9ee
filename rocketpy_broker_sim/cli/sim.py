"""rocketpy-broker-sim: name server and broker in one process, for development, and the way to stop servers.

`serve` is what it does when it is told nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rocketpy._version import __version__
from rocketpy.errors import ConfigError
from rocketpy.remoting.network import LOOPBACK
from rocketpy.wire.hosts import format_address, parse_address
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.cli.logs import add_log_options
from rocketpy_broker_sim.cli.options import add_metrics_options, metrics_line
from rocketpy_broker_sim.cli.running import Boot, run_command, serve
from rocketpy_broker_sim.cli.stop import ROLES, stop
from rocketpy_broker_sim.cluster.settings import broker_settings, name_server_settings, refuse_exposure, show_metrics
from rocketpy_broker_sim.config import BROKER_PORT, NAMESRV_PORT
from rocketpy_broker_sim.namesrv import open_name_server
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.disk.real import RealStorage

if TYPE_CHECKING:
    from rocketpy.seams import Storage

__all__ = ["main"]

PROGRAM = "rocketpy-broker-sim"
_BROKER_BEYOND = BROKER_PORT - NAMESRV_PORT
_EVERYWHERE = {"": LOOPBACK, "0.0.0.0": LOOPBACK, "::": "::1"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a sub-command; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or (given[0].startswith("-") and given[0] not in ("-h", "--help", "--version")):
        given.insert(0, "serve")
    options = _parser().parse_args(given)
    body = partial(options.run, options)
    return run_command(PROGRAM, options.log, body, log_level=options.log_level)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, description="RocketMQ servers for development.", allow_abbrev=False)
    parser.set_defaults(log=None, log_level=None)  # of the commands without these options
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_serve(commands.add_parser("serve", help="name server and broker in one process (the default)"))
    showing = commands.add_parser("demo", help="start a cluster, send a few messages and consume them")
    showing.add_argument("--count", type=_positive, default=8, metavar="N", help="how many messages (default 8)")
    showing.set_defaults(run=_demo)
    stopping = commands.add_parser("stop", help="stop servers of yours that run on this machine")
    stopping.add_argument("what", choices=ROLES, help="which kind of server")
    stopping.add_argument(
        "--wait", type=float, default=40.0, metavar="SECONDS", help="how long it may take (default 40)"
    )
    stopping.set_defaults(run=lambda options: stop(options.what, options.wait))
    return parser


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default=LOOPBACK, help="address to listen on (default this machine only)")
    parser.add_argument(
        "--port",
        type=_port,
        default=NAMESRV_PORT,
        help=f"port of the name server (default {NAMESRV_PORT}); the broker takes that plus {_BROKER_BEYOND}, "
        "and 0 any free ones",
    )
    parser.add_argument("--data", metavar="DIR", help="keep messages here; in memory, until it stops, without it")
    add_metrics_options(parser)
    parser.add_argument("--insecure", action="store_true", help="let other machines in, without credentials")
    add_log_options(parser)
    parser.set_defaults(run=_serve)


def _port(text: str) -> int:
    highest = 65535 - _BROKER_BEYOND
    if not text.isdecimal() or int(text) > highest:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {highest}")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def _demo(options: argparse.Namespace) -> int:
    # The client is loaded for this alone: a server does without it.
    from rocketpy_broker_sim.cli.demo import demo

    return demo(options.count)


def _serve(options: argparse.Namespace) -> int:
    for host in (options.host, options.metrics_host or LOOPBACK):
        refuse_exposure(host, insecure=options.insecure)
    if options.metrics_host is not None and options.metrics_port is None:
        raise ConfigError("--metrics-host is the address of a port with metrics: give --metrics-port too")
    return serve(partial(_open, options))


@asynccontextmanager
async def _open(options: argparse.Namespace) -> AsyncIterator[Boot]:
    listening = {"bind_address": options.host, "metrics_prom_exporter_host": options.metrics_host or ""}
    names = name_server_settings(listening, options.port)
    config = broker_settings(listening, "broker-a", options.port + _BROKER_BEYOND if options.port else 0)
    if options.metrics_port is not None:
        show_metrics([config, names], options.metrics_port)
    async with open_name_server(names, storage=_storage(options.data, "namesrv")) as name_server:
        host, port = parse_address(name_server.address)
        known = format_address(_EVERYWHERE.get(host, host), port)
        opening = open_broker(config, storage=_storage(options.data, "broker-a"), name_servers=[known])
        async with opening as broker:
            kept = f"data in {options.data}" if options.data else "data in memory"
            shown = metrics_line(broker.metrics_address) + metrics_line(name_server.metrics_address)
            line = f"{PROGRAM} boot success: name server {known}, broker {broker.address}, {kept}{shown}"
            yield Boot("sim", "broker-a and its name server", known, line)


def _storage(data: str | None, name: str) -> Storage:
    return MemoryStorage() if data is None else RealStorage(Path(data).expanduser() / name)


if __name__ == "__main__":
    sys.exit(main())
