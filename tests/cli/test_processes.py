"""`rocketpy` as a real process: what it loads, the pipe that closes, Ctrl-C, terminals and exit statuses."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli
from tests.cli.processes import command, environment, on_terminal, run

pytestmark = pytest.mark.slow

posix = pytest.mark.skipif(os.name != "posix", reason="has no such terminals and signals")


# --- what is loaded --------------------------------------------------------------------------------------


def loaded(*arguments: str, **more: str) -> set[str]:
    """The modules that a command loads."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "rocketpy.cli", *arguments],
        env=environment(None, **more),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout
    return set(re.findall(r"\|\s+(\S+)$", done.stderr, re.MULTILINE))


HEAVY = {"trio", "rich", "attrs", "attr", "ssl", "rocketpy.client", "rocketpy.sync", "rocketpy.admin", "rocketpy.wire"}


@pytest.mark.parametrize("line", [["--help"], ["topic", "--help"], ["group", "reset", "--help"], ["mqadmin", "--help"]])
def test_help_loads_nothing_that_is_heavy(line: list[str]) -> None:
    found = loaded(*line)
    assert "click" in found
    assert found & HEAVY == set()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("rocketpy to", "plain,topic"),
        ("rocketpy topic cr", "plain,create"),
        ("rocketpy topic list --inter", "--internal"),
        ("rocketpy send Orders --file ord", "file,ord"),
        ("rocketpy topic list --config ro", "file,ro"),
    ],
)
def test_completion_completes_and_loads_nothing_that_is_heavy(words: str, expected: str) -> None:
    more = {"_ROCKETPY_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    assert expected in run(None, **more).stdout
    assert loaded(**more) & HEAVY == set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_line_for_a_shell_names_what_click_understands(shell: str) -> None:
    line = run(None, "completion", shell).stdout.strip()
    assert f"_ROCKETPY_COMPLETE={shell}_source rocketpy" in line
    source = run(None, _ROCKETPY_COMPLETE=f"{shell}_source")
    assert f"_ROCKETPY_COMPLETE={shell}_complete" in source.stdout
    assert source.returncode == 0


# --- ends ------------------------------------------------------------------------------------------------


def test_statuses_and_streams(cluster: BlockingLocalCluster) -> None:
    done = run(cluster, "namesrv", "list")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"address\n{cluster.name_server_addresses}\n", "")
    done = run(cluster, "topic", "get", "Unknown")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("rocketpy: error: the topic Unknown does not exist")
    assert len(done.stderr.splitlines()) == 1
    assert run(cluster, "topic", "get").returncode == 2


@posix
def test_a_pipe_that_closes_ends_it_without_a_word(cluster: BlockingLocalCluster) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            command("broker", "config", "broker-a"),
            env=environment(cluster),
            stdout=write,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no device that is always full")
def test_output_that_cannot_be_written_is_an_error(cluster: BlockingLocalCluster) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command("broker", "list"),
            env=environment(cluster),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("rocketpy: error: writing the output failed: ")
    assert len(done.stderr.splitlines()) == 1


@posix
def test_ctrl_c_ends_a_watch_without_a_word(cluster: BlockingLocalCluster) -> None:
    with subprocess.Popen(
        command("lag", "--watch", "--every", "3600"),
        env=environment(cluster),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().endswith(" UTC\n")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")


# --- terminals -------------------------------------------------------------------------------------------


@posix
def test_a_question_is_asked_on_a_terminal(cluster: BlockingLocalCluster) -> None:
    cluster.create_topic("Orders", queues=1)
    cli = Cli(cluster)
    for answer, status in (("n\n", 1), ("\x04", 130), ("y\n", 0)):  # \x04: the end of the input
        assert "Orders" in cli.lines("topic", "list")
        with on_terminal(cluster, "topic", "delete", "Orders") as terminal:
            terminal.until("Delete the topic Orders and its 0 messages? [y/N]: ")
            terminal.type(answer)
            assert terminal.end() == status
        assert ("nothing was changed" in terminal.seen) == (status == 1)
    assert "deleted the topic Orders" in terminal.seen
    assert cli.ok("topic", "list") == "no topics\n"


@posix
def test_tables_are_drawn_on_a_terminal(cluster: BlockingLocalCluster) -> None:
    with on_terminal(cluster, "broker", "list") as terminal:
        assert terminal.end() == 0
    assert "\x1b[1mcluster" in terminal.seen
    with on_terminal(cluster, "broker", "list", "--json") as terminal:
        assert terminal.end() == 0
    assert terminal.seen.startswith('{"address": ')


@posix
def test_a_watch_on_a_terminal_stays_in_one_place(cluster: BlockingLocalCluster) -> None:
    with on_terminal(cluster, "lag", "--watch", "--every", "0.1") as terminal:
        terminal.until("Ctrl-C to stop")
        first = len(terminal.seen)
        terminal.until("Ctrl-C to stop", times=3)
        assert "\x1b[1A" in terminal.seen[first:]  # one line up, to where the table stands
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
    assert "Traceback" not in terminal.seen


@posix
def test_ctrl_c_while_it_is_loaded_ends_it_without_a_traceback() -> None:
    """The module that parses command lines is replaced by one that is interrupted while it is imported."""
    script = (
        "import signal, sys\n"
        "class Slow:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click':\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "from rocketpy.cli.entry import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
