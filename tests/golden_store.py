"""The store directories that Apache's brokers left: one archive each, unpacked at most once by a process.

`unpacked(name)` is for reading; what writes takes a `copy`. An archive holds the directory as it was left.
`python -m tests.golden_store NAME DIRECTORY` packs such a directory, the same bytes whenever it does so.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "golden" / "store"
NAMES = sorted(path.name for path in FOLDER.iterdir())
ARCHIVE = "store.tar.xz"
LEFT_OUT = frozenset({"store/timerwheel"})
"""Takes 38 MB, nearly all of them zero, and is made again from the log."""


@functools.cache
def _home() -> Path:
    """A directory for this process, which takes it away at its end; those that it forks do not."""
    home, process = Path(tempfile.mkdtemp(prefix="rocketpy-golden-")), os.getpid()
    atexit.register(lambda: shutil.rmtree(home, ignore_errors=True) if os.getpid() == process else None)
    return home


def _as_new(member: tarfile.TarInfo, place: str) -> tarfile.TarInfo:
    """Unpack as if it were written now: a broker drops files that are old."""
    return tarfile.data_filter(member, place).replace(mtime=None)


@functools.cache
def unpacked(name: str) -> Path:
    """The store directory of a broker; nobody writes into it."""
    home = _home() / name
    with tarfile.open(FOLDER / name / ARCHIVE) as packed:
        packed.extractall(home, [each for each in packed if each.name not in LEFT_OUT], filter=_as_new)
    return home / "store"


def copy(name: str, root: Path) -> None:
    """Make `root` a store directory of one's own."""
    shutil.copytree(unpacked(name), root)


def pack(name: str, directory: Path) -> Path:
    """Write the archive of a store directory: its names, types and bytes, and nothing of the machine."""
    archive = FOLDER / name / ARCHIVE

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.isdir() else 0o644
        return member

    with tarfile.open(archive, "w:xz", format=tarfile.PAX_FORMAT) as packed:
        packed.add(directory, "store", recursive=False, filter=plain)
        for path in sorted(directory.rglob("*")):
            packed.add(path, f"store/{path.relative_to(directory).as_posix()}", recursive=False, filter=plain)
    return archive


if __name__ == "__main__":
    print(pack(sys.argv[1], Path(sys.argv[2])))
