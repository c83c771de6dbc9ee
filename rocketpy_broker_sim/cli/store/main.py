"""rocketpy-store COMMAND DIR: the commands, their options, and what becomes of their errors.

Exit status: 0 all is well, 1 damage was found, 2 the command could not be done. A reader that goes away (``| head``)
and Ctrl-C end it without a word. Letters that the terminal cannot show are escaped.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from rocketpy._version import __version__
from rocketpy.errors import RocketMQError, StoreCorruptError
from rocketpy_broker_sim.cli.logs import log, logging_of
from rocketpy_broker_sim.cli.store import check, checkpoint, commitlog, consumequeue, index, ls, messages, query, repair

__all__ = ["main"]

PROGRAM = "rocketpy-store"
_COMMANDS = (ls, commitlog, consumequeue, messages, index, checkpoint, query, check, repair)
_DAMAGED, _UNABLE, _INTERRUPTED, _NOBODY_LISTENS = 1, 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    options = _parser().parse_args(arguments)
    _prepare_output()
    with logging_of(PROGRAM):
        return _status(options)


def _prepare_output() -> None:
    """Bodies hold letters of the whole world; the encoding of standard output may have fewer."""
    if sys.stdout is None:  # closed by the parent process
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _forget_output() -> None:
    """The interpreter shall not stumble over what was not written when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _status(options: argparse.Namespace) -> int:
    """Run it; every error of ours becomes one line and a status."""
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        return _NOBODY_LISTENS
    except KeyboardInterrupt:
        return _INTERRUPTED
    except StoreCorruptError as exc:
        log.error("%s", exc)
        return _DAMAGED
    except RocketMQError as exc:
        log.error("%s", exc)
        return _UNABLE
    except OSError as exc:  # those of the store have become errors of ours
        _forget_output()
        log.error("writing the output failed: %s; send it to another place", exc.strerror or exc)
        return _UNABLE
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Look into the store of a RocketMQ broker, running or not, ours or Apache's.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in _COMMANDS:
        name = command.__name__.rpartition(".")[2]
        each = commands.add_parser(name, help=command.HELP, description=command.HELP, allow_abbrev=False)
        each.add_argument("directory", metavar="DIR", help="the store (storePathRootDir)")
        each.add_argument(
            "-c", "--configFile", metavar="FILE", help="settings of its broker; file sizes are detected without them"
        )
        each.add_argument("--json", action="store_true", help="one JSON object per line")
        command.add_options(each)
        each.set_defaults(run=command.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
