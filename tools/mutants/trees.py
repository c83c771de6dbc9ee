"""Copies of a tree to break: the checkout itself is never touched."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent.parent


def files_of(root: Path) -> list[str]:
    """Return the files that git tracks or would, sorted; all files where there is no git."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True)
    names = (
        listed.stdout.split("\0") if listed.returncode == 0 else [path.relative_to(root) for path in root.rglob("*")]
    )
    return sorted({str(name) for name in names if name and (root / name).is_file()})


def digest_of(root: Path, files: Iterable[str]) -> str:
    """Identify what the files hold."""
    digest = hashlib.sha256()
    for name in files:
        digest.update(name.encode() + b"\0" + hashlib.sha256((root / name).read_bytes()).digest())
    return digest.hexdigest()[:16]


def copy_tree(root: Path, files: Iterable[str], into: Path) -> None:
    """Copy the files, with their modes and times."""
    for name in files:
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, into / name)


def environment_of(tree: Path, scratch: Path, **more: str) -> dict[str, str]:
    """Return an environment in which every Python, also one that a test starts, imports the library from `tree`."""
    scratch.mkdir(exist_ok=True)
    paths = os.pathsep.join([str(tree), str(TOOLS)])
    fixed = {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(scratch), "CI": "true"}
    return os.environ | fixed | more
