"""The programs that stand in README.md, and running one of them in any environment."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from rocketpy_broker_sim import BlockingLocalCluster

__all__ = ["EXAMPLES", "run_example"]

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)


def run_example(number: int, python: str | Path, place: Path, env: Mapping[str, str]) -> None:
    """Run one of them, whole, in a folder of its own; only the address of the name server is another.

    Args:
        number: Which, from 0.
        python: The interpreter.
        place: Where the program is written, and where it runs.
        env: All variables that it gets.
    """
    with BlockingLocalCluster() as cluster:
        program = place / "example.py"
        program.write_text(EXAMPLES[number].replace("127.0.0.1:9876", cluster.name_server_addresses), "utf-8")
        ran = subprocess.run(
            [python, "-W", "error", program], cwd=place, env=env, capture_output=True, text=True, timeout=60
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""
