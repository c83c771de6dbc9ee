"""Session: what one call of `rocketpy` shares among its options, its command and the report of its errors."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import click

from rocketpy.cli.output import Output
from rocketpy.cli.text import escaped

if TYPE_CHECKING:
    from rocketpy.errors import BrokersFailedError
    from rocketpy.remoting.network import Network
    from rocketpy.sync import Admin

__all__ = ["Session"]

P = ParamSpec("P")
R = TypeVar("R")


class Session:
    """One call of `rocketpy`.

    Args:
        network: What opens the connections; None for TCP.

    Attributes:
        namesrv: The name servers, if they were given.
        timeout: The timeout of a request, if it was given.
        config_file: The file with settings of the client, if it was given.
        as_json: Whether to print JSON.
        verbose: Whether to log.
        failed: The errors of calls that only some servers answered; they are reported at the end.
    """

    def __init__(self, *, network: Network | None = None) -> None:
        self.namesrv: str | None = None
        self.timeout: float | None = None
        self.config_file: str | None = None
        self.as_json = False
        self.verbose = False
        self.failed: list[BrokersFailedError] = []
        self.network = network
        self._output: Output | None = None

    @property
    def output(self) -> Output:
        """Where rows and notes go."""
        if self._output is None:
            self._output = Output(as_json=self.as_json)
        return self._output

    def settings(self) -> dict[str, Any]:
        """The settings of a client, as keywords of an `Admin`, a `Producer` or a consumer."""
        from rocketpy.cli.settings import client_settings

        _log_to_screen(logging.INFO if self.verbose else logging.ERROR)
        found = client_settings(namesrv=self.namesrv, timeout=self.timeout, file=self.config_file)
        return found if self.network is None else {**found, "network": self.network}

    @contextmanager
    def admin(self) -> Iterator[Admin]:
        """An open `Admin` for the time of a block.

        Raises:
            ConfigError: A setting cannot be used.
        """
        from rocketpy.sync import Admin

        with Admin(**self.settings()) as admin:
            yield admin

    def partly(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call something that only reads. If some servers fail, return what the others answered.

        The failures are reported at the end of the command, and its exit status is 1.

        Raises:
            BrokersFailedError: No server answered.
        """
        from rocketpy.errors import BrokersFailedError

        try:
            return call(*args, **kwargs)
        except BrokersFailedError as error:
            if not error.done:
                raise
            self.failed.append(error)
            return cast("R", error.result)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before a change that cannot be undone.

        Args:
            question: The change, as a question.
            yes: Whether the answer was given with --yes.

        Raises:
            ConfigError: The answer is no, or there is nobody to ask.
            Abort: Ctrl-C instead of an answer.
        """
        if yes:
            return
        from rocketpy.errors import ConfigError

        if sys.stdin is None or not sys.stdin.isatty() or not sys.stderr.isatty():
            raise ConfigError(f'nothing was changed: there is no terminal to ask "{question}"; pass --yes to confirm')
        if not click.confirm(escaped(question), err=True):
            raise ConfigError("nothing was changed")


def _log_to_screen(level: int) -> None:
    logging.basicConfig(format="rocketpy: %(levelname)s: %(message)s", level=level)
