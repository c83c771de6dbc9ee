"""What surrounds every command: its options, where settings come from, help, and what is not understood."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
import pytest

import rocketpy
from rocketpy.cli.commands import COMMANDS
from rocketpy.cli.main import rocketpy as main
from rocketpy.cli.session import Session
from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli


def test_common_options_stand_before_or_behind_a_command(cluster: BlockingLocalCluster) -> None:
    cluster.create_topic("Orders")
    bare, address = Cli(), cluster.name_server_addresses
    for line in (
        ["-n", address, "--json", "topic", "list"],
        ["topic", "-n", address, "--json", "list"],
        ["topic", "list", "-n", address, "--json"],
        ["mqadmin", "-n", address, "--json", "topicStatus", "-t", "Orders"],
    ):
        if "mqadmin" in line:
            assert json.loads(bare.ok(*line).splitlines()[0])["topic"] == "Orders"
            continue
        assert json.loads(bare.ok(*line)) == {"topic": "Orders"}
    assert json.loads(bare.ok("topic", "-n", "127.0.0.1:1", "list", "-n", address, "--json")) == {"topic": "Orders"}
    assert json.loads(bare.ok("-n", "127.0.0.1:1", "topic", "list", "-n", address, "--json")) == {"topic": "Orders"}


def test_without_a_name_server_the_next_step_is_said() -> None:
    assert Cli().fails("topic", "list") == (
        'rocketpy: error: no name server is known: pass --namesrv "host:9876", or set NAMESRV_ADDR\n'
    )


def test_a_name_server_that_does_not_answer_is_named() -> None:
    said = Cli(NAMESRV_ADDR="127.0.0.1:1").fails("topic", "list")
    assert "(127.0.0.1:1: connection refused)" in said
    assert said.endswith("pass the right ones with --namesrv, or in NAMESRV_ADDR\n")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["topik", "list"], "No such command 'topik'. Did you mean topic?"),
        (["topic", "lisst"], "No such command 'lisst'"),
        (["topic", "list", "--nothing"], "No such option"),
        (["topic", "get"], "Missing argument 'TOPIC'"),
        (["topic", "create", "T", "--queues", "many"], "'many' is not a valid integer"),
    ],
)
def test_what_is_not_understood_ends_with_status_2(line: list[str], said: str) -> None:
    assert said in Cli().fails(*line, status=2)


def test_the_version_is_printed() -> None:
    assert Cli().ok("--version") == f"rocketpy {rocketpy.__version__}\n"


# --- settings --------------------------------------------------------------------------------------------


def settings(monkeypatch: pytest.MonkeyPatch, **given: str | float | None) -> dict[str, object]:
    monkeypatch.setenv("HOME", "/nonexistent")
    session = Session()
    for name, value in given.items():
        setattr(session, name, value)
    return session.settings()


def file_with(tmp_path: Path, text: str, mode: int = 0o600) -> str:
    path = tmp_path / "rocketpy.toml"
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return str(path)


def test_options_win_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    text = 'namesrv = "file:1"\nrequest_timeout = 5\naccess_key = "of-file"\nsecret_key = "s"\n'
    file = file_with(tmp_path, text)
    of_file = {"namesrv": "file:1", "request_timeout": 5, "access_key": "of-file", "secret_key": "s"}
    assert settings(monkeypatch, config_file=file) == of_file
    monkeypatch.setenv("NAMESRV_ADDR", "environment:1")
    monkeypatch.setenv("ROCKETPY_ACCESS_KEY", "of-environment")
    of_environment = of_file | {"namesrv": "environment:1", "access_key": "of-environment"}
    assert settings(monkeypatch, config_file=file) == of_environment
    given = settings(monkeypatch, config_file=file, namesrv="option:1", timeout=7.0)
    assert given == of_environment | {"namesrv": "option:1", "request_timeout": 7.0}


def test_the_file_of_the_user_is_read_where_it_is(tmp_path: Path, cluster: BlockingLocalCluster) -> None:
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config" / "rocketpy.toml").write_text(f'namesrv = "{cluster.name_server_addresses}"\n', "utf-8")
    assert Cli(HOME=str(tmp_path)).rows("namesrv", "list") == [{"address": cluster.name_server_addresses}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("namesrv = ", "are not valid TOML"),
        ('namesrv = "127.0.0.1:1"\nnothing = 1\n', "ClientConfig has no setting nothing"),
        ('namesrv = "127.0.0.1:1"\naccess_key = "a"\n', "secret_key"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert said in Cli().fails("topic", "list", "--config", file_with(tmp_path, text))


def test_a_file_that_is_not_there_is_named() -> None:
    said = Cli().fails("topic", "list", "--config", "/nonexistent/file")
    assert said == "rocketpy: error: the settings in /nonexistent/file cannot be read: No such file or directory\n"


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes")
def test_a_secret_that_others_can_read_is_warned_of(tmp_path: Path, cluster: BlockingLocalCluster) -> None:
    text = f'namesrv = "{cluster.name_server_addresses}"\naccess_key = "a"\nsecret_key = "s"\n'
    file = file_with(tmp_path, text, 0o644)
    result = Cli().run("namesrv", "list", "--config", file)
    assert result.exit_code == 0
    assert result.stderr == (
        f'rocketpy: warning: other users can read the secret key in {file}; run "chmod 600 {file}"\n'
    )
    os.chmod(file, 0o600)
    assert Cli().ok("namesrv", "list", "--config", file)


# --- help ------------------------------------------------------------------------------------------------


def commands(command: click.Command, *names: str) -> list[tuple[str, click.Command]]:
    """A command, and all below it, by their names; those of mqadmin have tests of their own."""
    found = [(" ".join(names), command)]
    if isinstance(command, click.Group) and names != ("mqadmin",):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None, name
            found += commands(inner, *names, name)
    return found


ALL = commands(main)


@pytest.mark.parametrize("name", [name for name, _ in ALL if name], ids=str)
def test_every_command_has_a_help(name: str) -> None:
    assert f"Usage: rocketpy {name} " in Cli().ok(*name.split(), "--help")
    assert f"Usage: rocketpy {name} " in Cli().ok(*name.split(), "-h")


def test_arguments_are_not_listed_among_the_options() -> None:
    options = Cli().ok("topic", "import", "--help").partition("\nOptions:\n")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in options.splitlines()] == ["-b,", "-c,", "--exist-ok", "-h,"]


def test_the_main_help_says_of_each_command_what_it_is() -> None:
    text = Cli().ok("--help")
    for name, entry in COMMANDS.items():
        assert name in text
        assert entry.help.endswith(".")
        assert len(entry.help) <= 62, f"{name}: this takes two lines of a terminal"
        assert entry.help in text
        assert entry.section in text


def test_no_option_takes_a_secret() -> None:
    names = {option for _, command in ALL for each in command.params for option in each.opts}
    assert not [name for name in names if "secret" in name or "access" in name or "token" in name]
    assert len(names) > 20
