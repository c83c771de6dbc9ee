"""Clients of other makes: what drivers are told, what their answers mean, where they stand, and why one is missing."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.bars import APACHE
from benchmarks.budget import Budget
from benchmarks.measure import Ground, Row, Size
from benchmarks.peers import javascript
from benchmarks.peers.peer import Launch, Peer, PeerMake, outcome, told
from benchmarks.peers.work import works
from benchmarks.plan import measures
from benchmarks.processes import Child
from benchmarks.rounds import warm_up_peer
from benchmarks.servers import OURS, Site
from benchmarks.task import Outcome, Task
from benchmarks.trouble import BenchmarkError

TASK = Task("one", "ns:1", "b:2", "Send", "Filled", 300, 4, "7_1", None, Budget(0.5, 60))

DRIVER = """
import json, sys
print("a library says hello", flush=True)
if sys.argv[1:]:
    print(json.dumps({"acknowledged": True}), flush=True)
    sys.exit()
print(json.dumps({"ready": "1"}), flush=True)
for line in sys.stdin:
    task = json.loads(line)
    if task["shape"] == "end":
        sys.exit(3)
    answer = {"messages": task["messages"], "seconds": 2.0, "cpu": 0.5}
    print(json.dumps(answer if task["shape"] == "one" else {"error": "no such shape"}), flush=True)
"""


@contextmanager
def driver() -> Iterator[Launch]:
    def launch(*arguments: str) -> Child:
        return Child("-c", DRIVER, *arguments, program=sys.executable)

    yield launch


MAKE = PeerMake("java", "a driver", driver)


def test_a_driver_is_told_what_the_worker_would_be_told():
    line = told("batch", TASK)
    assert (line["shape"], line["group"], line["filled"], line["seconds"]) == ("batch", "bench_7_1", 60, 0.5)
    assert (len(line["body"]), line["batch"], line["batches"]) == (128, 100, 4)
    assert line["warm"] == 60  # and never more than is measured


def test_a_rate_comes_with_cpu_for_a_hundred_thousand():
    found = outcome("java", {"messages": 500, "seconds": 0.25, "cpu": 0.02, "p50_us": 140})
    assert (found.value, found.messages, found.cpu, found.notes) == (2000.0, 500, 4.0, {"p50_us": 140.0})


def test_the_tail_of_the_times_comes_along():
    found = outcome("java", {"messages": 500, "seconds": 0.25, "cpu": 0.02, "p50_us": 140, "p99_us": 900})
    assert found.notes == {"p50_us": 140.0, "p99_us": 900.0}


def test_a_latency_is_its_own_figure():
    assert outcome("java", {"messages": 9, "latency_ms": 1.5}).value == 1.5


def test_a_driver_answers_between_lines_of_its_libraries():
    with MAKE.run() as peer:
        assert peer.measure("one", TASK).value == 30.0
        with pytest.raises(BenchmarkError, match="the java driver failed: no such shape"):
            peer.measure("64", TASK)
        assert peer.first_send("ns:1", "Send").value > 0


def test_a_driver_that_has_ended_is_not_waited_for():
    with MAKE.run() as peer:
        with pytest.raises(BenchmarkError, match="ended with status"):
            peer.measure("end", TASK)
        with pytest.raises(BenchmarkError, match="takes no more input"):
            peer.measure("one", TASK)


def test_a_fresh_driver_warms_up_by_itself_and_is_gone_afterwards():
    told_to: list[dict[str, object]] = []

    @contextmanager
    def noting() -> Iterator[Launch]:
        def launch(*arguments: str) -> Child:
            children.append(child := Noting("-c", DRIVER, *arguments, program=sys.executable))
            return child

        yield launch

    class Noting(Child):
        def tell(self, line: str) -> None:
            told_to.append(json.loads(line))
            super().tell(line)

    children: list[Child] = []
    with PeerMake("java", "a driver", noting).run() as peer:
        assert peer.measure_fresh("one", replace(TASK, budget=Budget(0.5, 10**6)), 30_000).messages == 10**6
        standing, fresh = children
        assert told_to[0]["warm"] == 30_000
        with pytest.raises(BenchmarkError, match="takes no more input"):
            fresh.tell("{}")
        assert peer.measure("one", TASK).messages == 60
        assert told_to[-1]["warm"] == 60
        with pytest.raises(BenchmarkError, match="no such shape"):
            peer.measure_fresh("64", TASK, 30_000)
    assert standing is not fresh


def test_peers_follow_the_work_of_ours_and_are_divided_by_the_same():
    rows = {row.name: row for measure in measures() for row in measure.rows}
    names = list(rows)
    for work in works():
        for measure in work.measures():
            (row,) = measure.rows
            assert names.index(row.name) > names.index(work.ours)
            assert rows[work.ours].unit == row.unit
            assert work.shape == "start" or rows[work.ours].floor == row.floor


def test_the_lock_file_names_no_place_and_the_version_that_is_told():
    lock = json.loads((javascript.SOURCES / "package-lock.json").read_text("utf-8"))
    assert lock["packages"]["node_modules/ali-ons"]["version"] == javascript.VERSION
    assert all("integrity" in package for name, package in lock["packages"].items() if name)
    assert "http" not in (javascript.SOURCES / "package-lock.json").read_text("utf-8")


def test_without_node_or_npm_the_reason_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert javascript.javascript() == "there is no node on PATH"
    assert "there is no npm on PATH" in str(javascript.installed(tmp_path))


def test_npm_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho 'npm error network down' >&2\nexit 1\n", "utf-8")
    npm.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(npm))
    assert javascript.installed(tmp_path) == "npm could not install ali-ons 3.12.0: npm error network down"


def test_npm_that_fails_or_stands_still_is_run_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    tries: list[list[str]] = []

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        tries.append(command)
        if len(tries) == 1:
            raise subprocess.TimeoutExpired(command, 1)
        return subprocess.CompletedProcess(command, 1 if len(tries) == 2 else 0, "", "npm error network down")

    monkeypatch.setattr(javascript.subprocess, "run", run)
    assert isinstance(javascript.installed(tmp_path, ["npm"]), Path)
    assert len(tries) == javascript.TRIES


def test_what_is_installed_is_not_installed_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\nmkdir node_modules\n", "utf-8")
    npm.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(npm))
    place = javascript.installed(tmp_path)
    assert isinstance(place, Path)
    assert place.is_dir()
    npm.unlink()
    assert javascript.installed(tmp_path) == place


def test_the_surfaces_alone_are_measured_on_apaches_servers_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(command, "apache", lambda: replace(OURS, name=APACHE))
    for names, expected in ((["surfaces"], [APACHE]), (["surfaces", "batch"], ["ours", APACHE])):
        options = argparse.Namespace(ours_only=False, no_peers=True, names=names)
        assert [make.name for make in command.company(options, ())[0]] == expected


def test_servers_that_are_left_out_leave_out_the_peers():
    options = argparse.Namespace(ours_only=True, no_peers=False)
    makes, peers, missing = command.company(options, {"java"})
    assert ([make.name for make in makes], peers) == (["ours"], [])
    assert set(missing) == {APACHE, "java", "javascript"}


def test_a_peer_warms_up_with_the_work_that_is_measured():
    done: list[tuple[str, str]] = []

    class Noting(Peer):
        def measure(self, shape: str, task: Task) -> Outcome:
            done.append((shape, task.run))
            return Outcome(1.0, 1)

    site = Site("ns:1", "b:2", 0, 0, lambda: 0.0)
    ground = Ground(OURS, site, Size(Budget(0.5, 60)), "warm")
    make = PeerMake("java", "a driver", driver, warm_turns=2)
    with driver() as launch:
        child = launch()
        peer = Noting("java", child, launch)
        child.kill()
        rows = [Row(name, "", "/s") for name in ("java-64", "raw-64", "java-threads-64")]
        warm_up_peer(make, peer, ground, rows)
    assert done == [("64", "warm_0_java_64"), ("64", "warm_1_java_64")]
