"""A broker that is down in the middle of a command: the others are done, the failure is named, the status is 1."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from rocketpy.errors import RequestCodeNotSupportedError, RocketMQError
from rocketpy.message import Message
from rocketpy.sync.parts.brokers import Brokers
from rocketpy.sync.parts.offsets import Offsets
from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli


@pytest.fixture
def cli(two_brokers: BlockingLocalCluster, tmp_path: Path) -> Cli:
    """Finds broker-a; at the address of broker-b, nobody answers."""
    two_brokers.create_topic("Orders", queues=1)
    for _ in range(2):
        two_brokers.send(Message("Orders", b"order"))
    all_of_it = Cli(two_brokers)
    all_of_it.ok("group", "create", "billing", "--exist-ok")
    file = tmp_path / "rocketpy.toml"
    file.write_text(f'[address_map]\n"{two_brokers.broker_addresses[1]}" = "127.0.0.1:1"\n', "utf-8")
    return Cli(two_brokers, ROCKETPY_CONFIG=str(file))


@pytest.mark.parametrize(
    "line",
    [
        ["topic", "get", "Orders"],
        ["topic", "stats", "Orders"],
        ["group", "list"],
        ["group", "get", "billing"],
        ["lag"],
        ["topic", "traffic"],
        ["topic", "traffic", "Orders"],
        ["broker", "runtime"],
        ["broker", "replication"],
        ["cluster", "export", "metadata", "--topics"],
        ["cluster", "export", "metadata", "--groups"],
        ["cluster", "export", "configs"],
        ["cluster", "export", "metrics"],
        ["producer", "list"],
        ["cluster", "show"],
        ["cluster", "list"],
    ],
    ids=" ".join,
)
def test_what_the_others_answered_is_shown_and_the_failure_named(cli: Cli, line: list[str]) -> None:
    result = cli.run(*line, "--json")
    assert result.exit_code == 1
    rows = [json.loads(each) for each in result.stdout.splitlines()]
    assert rows or line == ["producer", "list"]
    assert [row["broker"] for row in rows if "broker" in row and "queueId" not in row] in ([], ["broker-a"])
    title, failure, done = result.stderr.splitlines()
    assert title.endswith(" failed on 1 of 2 servers")
    assert failure.startswith("  broker-b")
    assert "127.0.0.1:1" in failure
    assert done.startswith("  succeeded on ")


def test_rows_of_a_broker_that_is_down_have_no_figures(cli: Cli) -> None:
    result = cli.run("cluster", "show")
    assert [line.split()[1:5:3] for line in result.stdout.splitlines()[1:]] == [
        ["broker-a", "V5_3_3"],
        ["broker-b", "-"],
    ]
    [row] = [json.loads(each) for each in cli.run("cluster", "list", "--json").stdout.splitlines()]
    assert (row["masters"], row["answered"]) == (2, 1)


def test_a_trace_that_some_brokers_do_not_answer_names_them(cli: Cli) -> None:
    result = cli.run("trace", "K1", "--trace-topic", "Orders")
    assert (result.exit_code, result.stdout) == (1, "no traced client has recorded this message\n")
    title, failure, done = result.stderr.splitlines()
    assert title == "rocketpy: error: looking for K1 in Orders failed on 1 of 2 servers"
    assert failure.startswith("  broker-b: ")
    assert done == "  succeeded on broker-a"


def test_a_server_that_does_not_have_a_request_is_not_the_end(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Brokers, broker: str) -> None:
        raise RequestCodeNotSupportedError.for_code(3, "request type 907 not supported", address="127.0.0.1:1")

    monkeypatch.setattr(Brokers, "replication", refuse)
    said = cli.fails("broker", "replication", "broker-a")
    assert "request type 907 not supported" in said
    assert said.endswith('; "rocketpy cluster show" shows the versions\n')


def test_a_change_says_where_it_was_made(cli: Cli, two_brokers: BlockingLocalCluster) -> None:
    result = cli.run("group", "update", "billing", "--max-retries", "5")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "looking for the group billing failed on 1 of 2 servers" in result.stderr  # nothing was changed yet
    result = cli.run("broker", "update-config", "autoCreateTopicEnable=false")
    assert (result.exit_code, result.stdout) == (1, "")
    title, failure, done = result.stderr.splitlines()
    assert title == "rocketpy: error: changing autoCreateTopicEnable failed on 1 of 2 servers"
    assert failure.startswith("  broker-b: ")
    assert done == "  succeeded on broker-a"
    whole = Cli(two_brokers)
    line = ["autoCreateTopicEnable"]
    shown = [whole.rows("broker", "config", each, *line)[0]["settings"] for each in ("broker-a", "broker-b")]
    assert [each["autoCreateTopicEnable"] for each in shown] == ["false", "true"]


def test_a_watch_goes_on_and_says_what_fails(cli: Cli) -> None:
    result = cli.run("lag", "--watch", "--every", "0.1", "--times", "2")
    assert result.exit_code == 1
    assert result.stdout.count("asking for the lag of all groups failed on 1 of 2 servers: broker-b: ") == 2


@pytest.mark.slow
def test_a_watch_for_programs_says_what_fails_on_standard_error(cli: Cli) -> None:
    result = cli.run("lag", "--watch", "--every", "0.1", "--times", "3", "--json")
    assert result.exit_code == 1
    assert len({json.loads(line)["at"] for line in result.stdout.splitlines()}) == 3
    lines = result.stderr.splitlines()
    assert lines[::3] == ["rocketpy: error: asking for the lag of all groups failed on 1 of 2 servers"] * 3
    assert all(line.startswith("  broker-b") for line in lines[1::3])


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("failing", [1, 2])
def test_a_watch_fails_if_its_last_look_does(
    two_brokers: BlockingLocalCluster, monkeypatch: pytest.MonkeyPatch, options: list[str], failing: int
) -> None:
    """One that fails in between is told; the command does not fail."""
    real, looks = Offsets.lags, itertools.count()

    def lags(*arguments: Any, **named: Any) -> Any:
        if next(looks) == failing:
            raise RocketMQError("nobody answers")
        return real(*arguments, **named)

    monkeypatch.setattr(Offsets, "lags", lags)
    result = Cli(two_brokers).run("lag", "--watch", "--every", "0.1", "--times", "3", *options)
    is_last = failing == 2
    assert result.exit_code == (1 if is_last else 0)
    assert result.stdout.count("nobody answers") == (0 if options else 1)
    assert result.stderr == ("rocketpy: error: nobody answers\n" if is_last or options else "")


def test_a_failure_of_all_is_an_error(two_brokers: BlockingLocalCluster, tmp_path: Path) -> None:
    file = tmp_path / "rocketpy.toml"
    # At different addresses: two names of one address are one server.
    lines = [f'"{each}" = "127.0.0.1:{port}"' for port, each in enumerate(two_brokers.broker_addresses, 1)]
    file.write_text("[address_map]\n" + "\n".join(lines), "utf-8")
    said = Cli(two_brokers, ROCKETPY_CONFIG=str(file)).fails("group", "list")
    assert said.splitlines()[0] == "rocketpy: error: listing the groups failed on 2 of 2 servers"
    assert len(said.splitlines()) == 3


def test_foreign_text_does_not_command_the_terminal(cli: Cli) -> None:
    assert "\\x1b[31m" in cli.fails("namesrv", "kv", "get", "a\x1b[31m", "b")


@pytest.mark.parametrize(
    "line",
    [
        ("--config", "FILE", "topic", "list"),
        ("topic", "--config", "FILE", "list"),
        ("topic", "list", "--config", "FILE"),
    ],
)
def test_an_option_wins_over_the_environment_wherever_it_stands(
    two_brokers: BlockingLocalCluster, tmp_path: Path, line: tuple[str, ...]
) -> None:
    file = tmp_path / "wanted.toml"
    file.write_text("", "utf-8")
    cli = Cli(two_brokers, ROCKETPY_CONFIG=str(tmp_path / "missing.toml"))
    assert "missing.toml" in cli.fails("topic", "list")
    assert cli.ok(*(str(file) if each == "FILE" else each for each in line))
