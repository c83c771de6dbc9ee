"""A task beside another one: its words and its status come at the end, and it does not outlive the block."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tools.beside import beside


def tree(root: Path, script: str) -> Path:
    (root / "dev").write_text(script, "utf-8")
    return root


def test_what_it_said_comes_once_it_has_ended(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = "import sys\nprint('said', *sys.argv[1:])\nprint('aloud', file=sys.stderr)\nsys.exit(3)\n"
    with beside(tree(tmp_path, script), "spark", "--older") as end:
        assert "said" not in capfd.readouterr().out
        assert end() == 3
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "== beside the others: ./dev spark --older"
    assert set(lines[1:]) >= {"said spark --older", "aloud"}


@pytest.mark.waits("for a process to begin")
def test_it_ends_with_the_block(tmp_path: Path) -> None:
    script = f"import os, pathlib, time\npathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
    with beside(tree(tmp_path, script + "time.sleep(600)\n"), "newer"):
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.01)
        pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
