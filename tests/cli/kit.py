"""Runs of `rocketpy` within the process of the tests."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from rocketpy.cli.main import rocketpy
from rocketpy_broker_sim import BlockingLocalCluster

__all__ = ["Cli"]


class Cli:
    """`rocketpy` beside a cluster: without a terminal, and with nothing in its environment but what is given here."""

    def __init__(self, cluster: BlockingLocalCluster | None = None, **environment: str | None) -> None:
        address = None if cluster is None else cluster.name_server_addresses
        # HOME: settings of the user who runs the tests stay out of them.
        self.environment = {
            "NAMESRV_ADDR": address,
            "ROCKETPY_CONFIG": None,
            "ROCKETPY_ACCESS_KEY": None,
            "ROCKETPY_SECRET_KEY": None,
            "HOME": "/nonexistent",
            **environment,
        }

    def run(self, *arguments: str, typed: str | None = None) -> Result:
        """Run a command; an error that it does not expect is raised here."""
        runner = CliRunner(env=self.environment)
        return runner.invoke(rocketpy, list(arguments), input=typed, catch_exceptions=False)

    def ok(self, *arguments: str) -> str:
        """What a command prints that succeeds and says nothing on standard error."""
        result = self.run(*arguments)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return result.stdout

    def lines(self, *arguments: str) -> list[str]:
        """The same, by lines."""
        return self.ok(*arguments).splitlines()

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """What a command prints with --json."""
        return [json.loads(line) for line in self.lines(*arguments, "--json")]

    def fails(self, *arguments: str, status: int = 1) -> str:
        """What a command says on standard error that fails; it prints nothing else."""
        result = self.run(*arguments)
        assert (result.exit_code, result.stdout) == (status, ""), result.output
        return result.stderr
