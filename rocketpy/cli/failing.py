"""Turns the errors of a command into a line on standard error and an exit status.

Exit status: 1 the command failed, or failed on some servers; 2 the command line is wrong. A reader that goes away
(``| head``), Ctrl-C and SIGTERM end the command without a message.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click
from click.exceptions import Exit

from rocketpy.cli import termination
from rocketpy.cli.text import escaped
from rocketpy.errors import (
    AlreadyExistsError,
    BrokersFailedError,
    GroupNotFoundError,
    NameServerUnreachableError,
    RequestCodeNotSupportedError,
    RocketMQError,
    SubscriptionGroupNotExistError,
    TopicNotExistError,
    TopicNotFoundError,
)

__all__ = ["INTERRUPTED", "NOBODY_LISTENS", "TERMINATED", "UNABLE", "errors_told", "tell", "tell_failures"]

UNABLE: Final = 1
INTERRUPTED: Final = 130
TERMINATED: Final = 143
NOBODY_LISTENS: Final = 141

_SEE: Final[tuple[tuple[type[RocketMQError] | tuple[type[RocketMQError], ...], str], ...]] = (
    (NameServerUnreachableError, "pass the right ones with --namesrv, or in NAMESRV_ADDR"),
    ((TopicNotFoundError, TopicNotExistError), '"rocketpy topic list" shows the topics'),
    ((GroupNotFoundError, SubscriptionGroupNotExistError), '"rocketpy group list" shows the groups'),
    (
        RequestCodeNotSupportedError,
        'this server is too old for the command, or is none that has it; "rocketpy cluster show" shows the versions',
    ),
)
"""What to do next, where the text of the error speaks of Python."""


@contextmanager
def errors_told() -> Iterator[None]:
    """Turn each expected error of a block into a line on standard error and an exit status.

    Raises:
        Exit: The block failed, and the error has been printed.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError as exc:
        _forget_output()
        raise Exit(NOBODY_LISTENS) from exc
    except (KeyboardInterrupt, click.Abort) as exc:
        raise Exit(TERMINATED if termination.has_come() else INTERRUPTED) from exc
    except RocketMQError as error:
        tell(error)
        raise Exit(UNABLE) from error
    except OSError as exc:  # those of the network have become errors of ours
        _forget_output()
        _tell(f"writing the output failed: {exc.strerror or exc}; send it to another place")
        raise Exit(UNABLE) from exc


def tell(error: RocketMQError) -> None:
    """Print an error on standard error."""
    if isinstance(error, BrokersFailedError):
        tell_failures(error)
    else:
        _tell(_advised(error))


def tell_failures(error: BrokersFailedError) -> None:
    """Name the servers on which a command failed, each with its error, and those on which it succeeded."""
    total = len(error.failures) + len(error.done)
    doing = str(error).partition(f" failed on {len(error.failures)} of {total} servers")[0]
    _tell(f"{doing} failed on {len(error.failures)} of {total} servers")
    for name, failure in error.failures.items():
        _say(f"  {name}: {_advised(failure)}")
    if error.done:
        _say(f"  succeeded on {', '.join(error.done)}")


def _advised(error: RocketMQError) -> str:
    if isinstance(error, AlreadyExistsError):
        return f'{str(error).partition(":")[0]}: change it with "update", or pass --exist-ok'
    for kind, advice in _SEE:
        if isinstance(error, kind):
            return f"{error}; {advice}"
    return str(error)


def _tell(text: str) -> None:
    _say(f"rocketpy: error: {text}")


def _say(text: str) -> None:
    """One line, whatever names and remarks contain."""
    click.echo(escaped(text), err=True)


def _forget_output() -> None:
    """Keep the interpreter from failing at its end over what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
