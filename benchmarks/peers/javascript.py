"""The JavaScript client `ali-ons`, installed with npm into a folder that git ignores, once for each lock file."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers.peer import Launch, PeerMake
from benchmarks.processes import ROOT, Child

SOURCES = Path(__file__).resolve().parent / "javascript"
CACHE = ROOT / ".cache" / "bench"
SHAPES = ("one", "64", "consume", "latency", "start")
VERSION = "3.12.0"
INSTALL_WITHIN = 100.0
TRIES = 3
"""A download can stand still or break off; the next try finds in npm's cache what has come by then."""
_FETCH = ("--fetch-timeout=20000", "--fetch-retries=5", "--fetch-retry-maxtimeout=10000")
"""In milliseconds: npm would wait five minutes for an answer, and a minute before it asks again."""
_INSTALL = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", *_FETCH)


def javascript() -> PeerMake | str:
    """Return `ali-ons`, or the reason why it is not available."""
    node = shutil.which("node")
    if node is None:
        return "there is no node on PATH"
    modules = installed()
    if isinstance(modules, str):
        return modules

    @contextmanager
    def means() -> Iterator[Launch]:
        def launch(*arguments: str) -> Child:
            env = {**os.environ, "NODE_PATH": str(modules), "NODE_ENV": "production"}
            return Child(str(SOURCES / "peer.js"), *arguments, program=node, env=env)

        yield launch

    return PeerMake("javascript", f"ali-ons {VERSION}", means)


def installed(cache: Path = CACHE, npm: Sequence[str] = ()) -> Path | str:
    """Return the folder of its modules, after installing them if necessary; or the reason why that failed.

    Args:
        cache: The directory that contains the folder.
        npm: The command of npm, if it is not the one on PATH.
    """
    lock = (SOURCES / "package-lock.json").read_bytes()
    place = cache / f"javascript-{hashlib.sha256(lock).hexdigest()[:12]}"
    complete = place / "complete"
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("a+b") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not complete.exists():
            trouble = _install(place, npm)
            if trouble is not None:
                return trouble
            complete.touch()
    return place / "node_modules"


def _install(place: Path, npm: Sequence[str]) -> str | None:
    """Let npm install into the folder. Returns what went wrong, if anything."""
    command = list(npm) or [found for found in (shutil.which("npm"),) if found is not None]
    if not command:
        return f"ali-ons {VERSION} is not installed and there is no npm on PATH"
    for name in ("package.json", "package-lock.json"):
        shutil.copy(SOURCES / name, place / name)
    trouble: str | None = None
    for _ in range(TRIES):
        trouble = _try([*command, *_INSTALL], place)
        if trouble is None:
            break
    return trouble


def _try(command: Sequence[str], place: Path) -> str | None:
    """Run npm once. Returns what went wrong, if anything."""
    try:
        done = subprocess.run(
            command,
            cwd=place,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_WITHIN,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"npm did not install ali-ons {VERSION} within {INSTALL_WITHIN:g} s"
    return None if done.returncode == 0 else f"npm could not install ali-ons {VERSION}: {_last(done.stderr)}"


def _last(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it does not say why")
