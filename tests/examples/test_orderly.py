"""examples/orderly.py as a user runs it, until Ctrl-C: the steps of every order come one after the other."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rocketpy_broker_sim import BlockingLocalCluster

ROOT = Path(__file__).resolve().parents[2]
STEPS = ["created", "paid", "paid", "shipped", "delivered"]
"""The first payment fails once."""


@pytest.mark.slow
def test_the_steps_of_an_order_come_in_order() -> None:
    with BlockingLocalCluster() as cluster:
        command = [sys.executable, "-W", "error", "-m", "examples.orderly", "-n", cluster.name_server_addresses]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            lines: list[str] = []
            for line in program.stdout:
                lines.append(line)
                if "order 1: delivered" in line:
                    break
            program.send_signal(signal.SIGINT)
            out, err = program.communicate(timeout=30)
    steps: dict[str, list[str]] = {}
    for line in [*lines, *out.splitlines()]:
        found = re.fullmatch(r"queue \d, order (\d+): (\w+)\n?", line)
        assert found is not None
        steps.setdefault(found[1], []).append(found[2])
    assert steps["0"] == STEPS
    assert steps["1"] == STEPS
    assert "Traceback" not in err
    assert program.returncode == 0
