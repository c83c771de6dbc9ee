"""examples/driven.py as a user runs it, and examples/set_back.py as its operator does."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rocketpy.sync import Message
from rocketpy_broker_sim import BlockingLocalCluster

ROOT = Path(__file__).resolve().parents[2]
DRINKS = ["0:0 coffee\n", "0:1 tea\n", "0:2 cake\n"]


@pytest.mark.slow
def test_an_operator_sets_it_back_and_everything_comes_again() -> None:
    with BlockingLocalCluster() as cluster:
        cluster.create_topic("Orders", queues=1)
        for drink in (b"coffee", b"tea", b"cake"):
            cluster.send(Message("Orders", drink))
        python, namesrv = [sys.executable, "-W", "error", "-m"], ["-n", cluster.name_server_addresses]
        command = [*python, "examples.driven", *namesrv]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            assert program.stdout.readline().startswith("group driven, client id ")
            assert [program.stdout.readline() for _ in range(3)] == DRINKS
            operator = [*python, "examples.set_back", "driven", "Orders", *namesrv]
            ran = subprocess.run(operator, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
            assert (ran.returncode, ran.stdout, ran.stderr) == (0, "broker-a sets driven back\n", "")
            assert [program.stdout.readline() for _ in range(3)] == DRINKS
            program.send_signal(signal.SIGTERM)
            out, err = program.communicate(timeout=30)
    assert (program.returncode, out) == (0, "")
    assert "was given another one for this group" in err
    assert "Traceback" not in err
