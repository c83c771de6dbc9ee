"""The quickstart as a user starts it, on small files, and Apache's quickstart pair."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest

from examples.quickstart.records import Flights, UnreadableInputError
from examples.quickstart.tally import NUMBER, Tally
from rocketpy.message import Message
from rocketpy_broker_sim import BlockingLocalCluster

ROOT = Path(__file__).resolve().parents[2]
CSV = "carrier,flight,delay\n" + "".join(f"{'AABB'[n % 4 : n % 4 + 1]},{n},{n}\n" for n in range(200))
NDJSON = '{"id": 1, "kind": "ä"}\n\n{"id": 2, "kind": "b"}\n'


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    with BlockingLocalCluster() as cluster:
        yield cluster.name_server_addresses


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "options", "lines"),
    [
        ("own.csv", CSV, ["--key", "flight", "--tag", "carrier"], ["A 100 -", "B 100 -", "200 sent"]),
        ("own.ndjson", NDJSON, ["--key", "id"], ["(none) 2 -", "2 sent"]),
    ],
)
def test_a_file_of_the_users_own(tmp_path: Path, name: str, text: str, options: list[str], lines: list[str]) -> None:
    file = tmp_path / name
    file.write_text(text, "utf-8")
    ran = run("examples.quickstart", file, *options)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "every record arrived exactly once" in ran.stdout
    for line in [*lines, lines[-1].replace("sent", "received")]:
        assert line in " ".join(ran.stdout.split())


def test_any_name_server_and_a_topic_of_ones_own(tmp_path: Path, namesrv: str) -> None:
    file = tmp_path / "own.csv"
    file.write_text(CSV, "utf-8")
    for _ in range(2):  # the second run goes on where the group of the first one stopped
        ran = run("examples.quickstart", file, "--namesrv", namesrv, "--topic", "Mine")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "topic Mine" in ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "options", "reason"),
    [
        ("own.csv", "", [], "holds no records"),
        ("own.csv", CSV, ["--key", "none"], "has no column 'none'; it has carrier, flight, delay"),
        ("own.ndjson", "{\n", [], "line 1 is not JSON"),
        ("own.ndjson", "[]\n", [], "line 1 is not a JSON object"),
        ("own.csv", CSV, ["--namesrv", "127.0.0.1:1"], "no name server answered"),
    ],
)
def test_what_cannot_work_is_one_line(tmp_path: Path, name: str, text: str, options: list[str], reason: str) -> None:
    file = tmp_path / name
    file.write_text(text, "utf-8")
    ran = run("examples.quickstart", file, *options)
    assert ran.returncode == 2
    assert reason in ran.stderr
    assert "Traceback" not in ran.stderr


def test_without_the_flights_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(UnreadableInputError, match=r"\./dev quickstart"):
        Flights()


def test_what_is_missing_strange_or_came_twice_is_not_exact() -> None:
    def arrived(*numbers: int) -> Tally:
        tally = Tally(3, "delay")
        bodies = [(number, msgpack.packb({"delay": "NA" if number else "4"})) for number in numbers]
        tally.take([Message("T", body, tags="AA", properties={NUMBER: str(number)}) for number, body in bodies])
        return tally

    assert arrived(0, 2, 1).is_exact(3)
    assert arrived(0, 2, 1).rows() == [("AA", "3", "4.0")]
    assert not arrived(0, 2).is_exact(3)
    assert not arrived(0, 1, 2, 2).is_exact(3)
    assert not arrived(0, 1, 2, 3).is_exact(3)


@pytest.mark.slow
def test_apaches_quickstart_pair(namesrv: str) -> None:
    command = [sys.executable, "-W", "error", "-m", "examples.quickstart_consumer", "-n", namesrv]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as consumer:
        try:
            assert consumer.stdout is not None
            assert consumer.stdout.readline() == "Consumer Started.\n"
            sent = run("examples.quickstart_producer", "-n", namesrv)
            assert sent.returncode == 0, sent.stderr
            assert sent.stdout.count("<SendResult SEND_OK") == 1000
            received = [consumer.stdout.readline().split(" ", 2)[2].strip() for _ in range(1000)]
            assert sorted(received) == sorted(f"Hello RocketMQ {number}" for number in range(1000))
            consumer.send_signal(signal.SIGTERM)
            _, said = consumer.communicate(timeout=30)  # whatever it prints still: a full pipe would hold it up
            assert consumer.returncode == 0, said
        finally:
            consumer.kill()


@pytest.mark.slow
def test_asyncio_sends_and_receives(namesrv: str) -> None:
    ran = run("examples.quickstart_asyncio", "-n", namesrv, "-c", "50")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "50 sent\n50 received\n"
