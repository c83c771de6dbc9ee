"""Java drivers, ours here or those of another directory, compiled once per release and source text into the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.interop.cache import cache_directory, locked
from tests.interop.failure import InteropError, section
from tests.interop.toolchain import OLDEST_JAVA, tool

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = Path(__file__).resolve().parent / "java"


def compiled(version: str, jars: Sequence[Path], directory: Path = SOURCES) -> Path:
    """The directory of class files for one release, compiled first when the sources have changed."""
    sources = sorted(directory.glob("*.java"))
    target = cache_directory() / f"drivers-{version}-{_digest(sources)}"
    with locked(f"drivers-{version}"):
        if not target.is_dir():
            _compile(sources, jars, target)
    return target


def _digest(sources: Sequence[Path]) -> str:
    digest = hashlib.sha256(str(OLDEST_JAVA).encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:12]


def _compile(sources: Sequence[Path], jars: Sequence[Path], target: Path) -> None:
    javac = tool("javac")
    if javac is None:
        raise InteropError("no javac on PATH: the drivers cannot be compiled")
    # Renamed into place when complete, so that a run cut short leaves no half of it.
    draft = Path(tempfile.mkdtemp(prefix="drivers-", dir=cache_directory()))
    options = ["--release", str(OLDEST_JAVA), "-encoding", "UTF-8", "-proc:none", "-nowarn", "-d", str(draft)]
    command = [javac, *options, "-cp", os.pathsep.join(map(str, jars)), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        shutil.rmtree(draft, ignore_errors=True)
        raise InteropError("the Java drivers do not compile\n" + section("javac", done.stderr))
    draft.rename(target)
