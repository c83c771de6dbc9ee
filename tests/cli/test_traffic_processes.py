"""`rocketpy tail` and `rocketpy send` as real processes: in pipes that close or stall, on terminals, with Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

from rocketpy.cli.traffic.reading import HELD
from rocketpy.sync import Message
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.processes import command, environment, on_terminal

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="has no such terminals and signals"),
]
_numbers = count(1)
LONG = 60.0
"""Seconds for what would never come otherwise; a process that has only been started has much to import."""
AT_ONCE = HELD - 1
"""Less than a broker may hold the pull of `tail`, which a signal must not wait for."""
TWO_STORED = (
    b"rocketpy: 2 messages stored; the next line is 3. To continue there: --skip 2\n",
    # Stored by the broker, whose answer was still on its way.
    b"rocketpy: 0 messages stored; the next line is 1; the lines without an answer may be stored as well. "
    b"To continue there: --skip 0\n",
)
"""What is said of two lines whose messages the broker has."""


@pytest.fixture
def topic(cluster: BlockingLocalCluster) -> str:
    name = f"Piped{next(_numbers)}"
    cluster.create_topic(name, queues=1)
    return name


@contextmanager
def running(cluster: BlockingLocalCluster, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with pipes at both ends."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command(*words), env=environment(cluster), stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C, again and again: Python does not notice one just before it begins to wait for a line of a terminal."""
    for _ in range(20):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
            return


def test_ctrl_c_ends_tail_at_once_and_without_a_word(cluster: BlockingLocalCluster, topic: str) -> None:
    cluster.send(Message(topic, b"one"))
    with running(cluster, "tail", topic, "-f", "--format", "value") as tail:
        assert tail.stdout.readline() == b"one\n"
        tail.send_signal(signal.SIGINT)
        assert tail.wait(AT_ONCE) == 130
        assert (tail.stdout.read(), tail.stderr.read()) == (b"", b"")


def test_ctrl_c_ends_tail_while_nobody_reads(cluster: BlockingLocalCluster, topic: str) -> None:
    for _ in range(4):
        cluster.send(Message(topic, b"x" * 100_000))
    with running(cluster, "tail", topic, "-f", "--format", "value") as tail:
        assert tail.stdout.read(1) == b"x"  # the pipe is full now, and it waits within a write
        tail.send_signal(signal.SIGINT)
        assert tail.wait(LONG) == 130
        assert tail.stderr.read() == b""


def test_a_reader_that_goes_away_ends_tail_without_a_word(cluster: BlockingLocalCluster, topic: str) -> None:
    cluster.send(Message(topic, b"one"))
    with running(cluster, "tail", topic, "-f", "--format", "value") as tail:
        assert tail.stdout.readline() == b"one\n"
        tail.stdout.close()
        for _ in range(20):
            cluster.send(Message(topic, b"two"))
        assert tail.wait(LONG) == 141
        assert tail.stderr.read() == b""


def test_each_line_of_a_pipe_is_sent_when_it_is_there(cluster: BlockingLocalCluster, topic: str) -> None:
    with running(cluster, "send", topic, "--lines") as send:
        for number in range(3):
            send.stdin.write(b"%d\n" % number)
            send.stdin.flush()
            cluster.wait_messages(topic, number + 1, timeout=LONG)
        send.stdin.close()
        assert send.wait(LONG) == 0
        assert send.stdout.read().startswith(b"3 messages stored in ")


def test_a_failure_ends_send_although_no_line_comes(cluster: BlockingLocalCluster, topic: str) -> None:
    with running(cluster, "send", topic, "--lines") as send:
        cluster.refuse_sends(100, code=ResponseCode.NO_PERMISSION)
        try:
            send.stdin.write(b"one\n")
            send.stdin.flush()
            assert send.wait(LONG) == 1
        finally:
            cluster.heal()
        said = send.stderr.read()
        assert b"0 messages stored; the next line is 1. To continue there: --skip 0" in said
        assert b"rocketpy: error: " in said


def test_ctrl_c_says_what_send_has_stored(cluster: BlockingLocalCluster, topic: str) -> None:
    with running(cluster, "send", topic, "--lines") as send:
        send.stdin.write(b"one\ntwo\nhalf")
        send.stdin.flush()
        cluster.wait_messages(topic, 2, timeout=LONG)
        send.send_signal(signal.SIGINT)
        assert send.wait(LONG) == 130
        assert send.stdout.read() == b""
        assert send.stderr.read() in TWO_STORED


def test_a_terminal_is_not_waited_for(cluster: BlockingLocalCluster, topic: str) -> None:
    with on_terminal(cluster, "send", topic) as terminal:
        assert terminal.end() == 1
    assert "there is nothing to send: pass a body, pass a file with --file, or pipe one" in terminal.seen


def test_a_terminal_sees_a_bar(cluster: BlockingLocalCluster, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"{number} {'x' * 500}\n" for number in range(5_000)))
    with on_terminal(cluster, "send", topic, "--lines", "--file", str(path)) as terminal:
        assert terminal.end() == 0
    assert f"sending to {topic}" in terminal.seen
    assert "5000 messages stored in " in terminal.seen


@pytest.mark.slow
def test_a_terminal_gets_no_control_characters(cluster: BlockingLocalCluster, topic: str) -> None:
    cluster.send(Message(topic, b'{"a": "\x1b[31m", "b": "' + b"x" * 150 + b'"}'))
    for form, shown in (("pretty", '"a": "\\x1b[31m"'), ("value", "\\x1b[31m"), ("raw", "\\x1b[31m")):
        with on_terminal(cluster, "tail", topic, "--format", form) as terminal:
            assert terminal.end() == 0
        assert shown in terminal.seen
        assert "\x1b[31m" not in terminal.seen


@pytest.mark.slow
def test_resending_on_a_terminal_asks(cluster: BlockingLocalCluster, topic: str) -> None:
    cluster.send(Message(topic, b"one"))
    sent = cluster.messages(topic)[0].offset_message_id
    for answer, status, stored in (("n\n", 1, 1), ("\x03", 130, 1), ("y\n", 0, 2)):
        with on_terminal(cluster, "message", "resend", sent) as terminal:
            terminal.until("[y/N]: ")
            if answer == "\x03":
                interrupt(terminal.process)
            else:
                terminal.type(answer)
            assert terminal.end() == status
        assert len(cluster.messages(topic)) == stored


# --- how they are ended, and what they are given ----------------------------------------------------------


@pytest.mark.parametrize("in_background", [False, True])
def test_sigterm_says_what_send_has_stored(cluster: BlockingLocalCluster, topic: str, in_background: bool) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as shells do for what a script starts with &

    pipe = subprocess.PIPE
    with subprocess.Popen(
        command("send", topic, "--lines"),
        env=environment(cluster),
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        preexec_fn=ignore if in_background else None,
    ) as send:
        assert send.stdin is not None
        send.stdin.write(b"one\ntwo\n")
        send.stdin.flush()
        cluster.wait_messages(topic, 2, timeout=LONG)
        if in_background:
            send.send_signal(signal.SIGINT)  # does not reach it
        send.terminate()
        said = send.communicate(timeout=LONG)
    assert (send.returncode, said[0]) == (143, b"")
    assert said[1] in TWO_STORED


@pytest.mark.slow
def test_sigterm_ends_tail_and_a_watch(cluster: BlockingLocalCluster, topic: str) -> None:
    cluster.send(Message(topic, b"one"))
    for words in (("tail", topic, "-f"), ("lag", "--watch")):
        with running(cluster, *words) as process:
            assert process.stdout.readline()
            process.terminate()
            assert process.wait(AT_ONCE) == 143
            assert process.stderr.read() == b""


@pytest.mark.slow
def test_a_standard_input_that_is_closed_is_an_error(cluster: BlockingLocalCluster, topic: str) -> None:
    for words in ("send", topic, "--lines"), ("send", topic), ("topic", "delete", topic):
        shell = ["sh", "-c", 'exec "$@" <&-', "sh", *command(*words)]
        done = subprocess.run(shell, env=environment(cluster), capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1), done
        assert "standard input is closed" in done.stderr or "there is no terminal" in done.stderr


def test_a_pipe_that_does_not_block_is_read_to_its_end(cluster: BlockingLocalCluster, topic: str) -> None:
    theirs, ours = os.pipe()
    os.set_blocking(theirs, False)
    with subprocess.Popen(
        command("send", topic, "--lines"), env=environment(cluster), stdin=theirs, stderr=subprocess.PIPE
    ) as send:
        for number in range(3):
            os.write(ours, b"%d\n" % number)
            cluster.wait_messages(topic, number + 1, timeout=LONG)
        os.close(ours)
        assert send.wait(LONG) == 0
    os.close(theirs)


def test_a_body_that_is_written_to_a_terminal_does_not_command_it(cluster: BlockingLocalCluster, topic: str) -> None:
    sent = cluster.send(Message(topic, b"\x1b]0;mine\x07"))
    with on_terminal(cluster, "message", "view", sent, "--topic", topic, "--body", "-") as terminal:
        assert terminal.end() == 0
    assert terminal.seen == r"\x1b]0;mine\x07"
