"""What the how-to of the command line shows is what the commands say; only ids, times and figures differ."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from rocketpy.cli.main import rocketpy
from rocketpy.results import ConsumeFromWhere, RetryLater
from rocketpy.sync import MessageExt, PushConsumer
from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "command-line.md"
BLOCK = re.compile(r"^```(console|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ID = re.compile(r"\b[0-9A-F]{32}\b")

pytestmark = pytest.mark.waits("a load of two seconds is measured")


def shown() -> Iterator[tuple[str, list[str]]]:
    """Each command that is shown with what it says."""
    for kind, block in BLOCK.findall(PAGE.read_text("utf-8")):
        if kind == "console":
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, *said = part.splitlines()
                yield command, said


def others() -> Iterator[str]:
    """The commands that are only named."""
    for kind, block in BLOCK.findall(PAGE.read_text("utf-8")):
        if kind == "text":
            yield from (line for line in block.splitlines() if line.startswith("rocketpy "))


def shape(lines: list[str]) -> list[str]:
    """Lines without what is different each time; those of several seconds are one."""
    found: list[str] = []
    for line in lines:
        line = ID.sub("ID", line)
        line = re.sub(r"\b\d\.\d( consumed a second|       1$)|with \d+ topics", "N", line)
        line = re.sub(r"127\.0\.0\.1:\d+ *", "ADDRESS ", line)
        line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", "TIME", line)
        if " a second" in line or "ms: " in line:
            line = re.sub(r"[\d,.]*\d", "N", line).replace("N message,", "N messages,")
        if not (found and " a second" in line and found[-1] == line):
            found.append(line)
    return found


@pytest.fixture
def cli(cluster: BlockingLocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """What the page takes for granted: topics, files, and a group that gives up the message with the key o2."""
    (tmp_path / "orders.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "broken.jsonl").write_text('{"body": "one"}\n{"body": "two"}\n5\n')
    monkeypatch.chdir(tmp_path)
    for topic in ("Orders", "Copies", "Load"):
        cluster.create_topic(topic, queues=1)

    def consume(message: MessageExt) -> RetryLater | None:
        return RetryLater(-1) if "o2" in message.keys else None

    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    with PushConsumer("billing", namesrv=cluster.name_server_addresses, consume_from_where=first) as consumer:
        consumer.subscribe("Orders", consume)
        yield Cli(cluster)


@pytest.mark.slow
def test_commands_say_what_is_shown(cli: Cli, cluster: BlockingLocalCluster) -> None:
    for command, said in shown():
        if command.startswith(("rocketpy lag", "rocketpy message track", "rocketpy dlq list")):
            cluster.wait_consumed("billing", "Orders")
            cluster.wait_dead_letters("billing", 1)
        ids = [each.message_id for each in cluster.messages("Orders") if "o2" in each.keys]
        output: str | None = None
        for stage in command.split(" | "):
            program, *words = shlex.split(ID.sub(ids[0] if ids else "", stage))
            assert program == "rocketpy"
            result = cli.run(*words, typed=output)
            output = result.output
        assert shape((output or "").splitlines()) == shape(said), command


def test_commands_that_are_only_named_are_understood() -> None:
    lines = list(others())
    assert len(lines) > 10
    for line in lines:
        _, *words = shlex.split(line)
        if ">" in words:
            del words[words.index(">") :]
        command: click.Command = rocketpy
        context = click.Context(rocketpy)
        while isinstance(command, click.Group):
            name = words.pop(0)
            found = command.get_command(context, name)
            assert found is not None, line
            command = found
        try:
            command.make_context(line, words, parent=context)
        except click.UsageError as error:
            pytest.fail(f"{line}: {error.format_message()}")
