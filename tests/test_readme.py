"""Runs the examples of README.md as they stand there, against a cluster of our own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rocketpy_broker_sim import BlockingLocalCluster

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_readme_shows_every_surface_and_the_cluster() -> None:
    together = "\n".join(EXAMPLES)
    assert "trio.run" in together
    assert "rocketpy.aio" in together
    assert "rocketpy.sync" in together
    assert "LocalCluster" in together


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example(number: int, tmp_path: Path) -> None:
    """Each one is a whole program; only the address of the name server is another."""
    with BlockingLocalCluster() as cluster:
        program = tmp_path / "example.py"
        program.write_text(EXAMPLES[number].replace("127.0.0.1:9876", cluster.name_server_addresses), "utf-8")
        ran = subprocess.run(
            [sys.executable, "-W", "error", program],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""
