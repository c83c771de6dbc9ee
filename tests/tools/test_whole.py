"""A run of pytest that was broken off is red, whatever status it ended with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import whole as module
from tools.whole import BROKEN_OFF, PLUGIN, VARIABLE, whole

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(("test", "status"), [("pass", 0), ("assert False", 1), ("os._exit(0)", BROKEN_OFF)])
def test_it_is_green_only_when_pytest_came_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], test: str, status: int
) -> None:
    shutil.copytree(ROOT / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__", "mutants"))
    (tmp_path / "test_it.py").write_text(
        f"import os\ndef test_it():\n    assert {VARIABLE!r} not in os.environ\n    {test}\n"
    )
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *PLUGIN, *options, "test_it.py"]

    def run(more: dict[str, str]) -> int:
        return subprocess.run(command, cwd=tmp_path, env=os.environ | more, capture_output=True).returncode

    assert whole(run) == status
    assert ("did not come to its end" in capsys.readouterr().out) == (test == "os._exit(0)")


def test_a_status_of_its_own_is_handed_on() -> None:
    assert whole(lambda _more: 5) == 5


def test_where_nobody_asks_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_file", None)
    module.pytest_unconfigure()
