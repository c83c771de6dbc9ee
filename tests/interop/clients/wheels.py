"""Wheels of PyPI, of one version each, unpacked into the cache: a compiler, an interpreter, a library."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.interop.cache import cache_directory, locked
from tests.interop.failure import InteropError, section

if TYPE_CHECKING:
    from pathlib import Path

INSTALL_WITHIN = 200.0
TRIES = 2
"""A download can stand still or break off, and pip does not go on with it: the next try begins it again."""
_OPTIONS = ("--quiet", "--disable-pip-version-check", "--no-input", "--root-user-action=ignore", "--timeout=20")
_INSTALL = ("install", *_OPTIONS, "--no-deps", "--no-compile", "--only-binary=:all:")


def unpacked(name: str, version: str) -> Path:
    """The folder with what the wheel holds, installed first when it is not there; its dependencies are not.

    Raises:
        InteropError: pip could not install it here; the message says why.
    """
    place = cache_directory() / f"wheel-{name}-{version}"
    complete = place / "complete"
    with locked(f"wheel-{name}"):
        if not complete.exists():
            _install(f"{name}=={version}", place)
            complete.touch()
    return place


def _install(requirement: str, place: Path) -> None:
    command = [sys.executable, "-m", "pip", *_INSTALL, "--upgrade", "--target", str(place), requirement]
    why = ""
    for _ in range(TRIES):
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_WITHIN, check=False
            )
        except subprocess.TimeoutExpired:
            why = f"pip did not install {requirement} within {INSTALL_WITHIN:g} s, the last of {TRIES} tries"
            continue
        if done.returncode == 0:
            return
        why = f"pip could not install {requirement} in {TRIES} tries\n" + section("pip", done.stderr[-4_000:])
    raise InteropError(why)
