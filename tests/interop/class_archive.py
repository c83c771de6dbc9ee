"""The classes of a release as the JVM has them once they are read and checked, in a file that every start maps.

A name server or a broker loads thousands of classes of Apache's, which takes half of its start. The JVM can keep them
in an archive, which belongs to one JVM and to one class path: it is made at the first start of a release, out of what
its servers and our drivers load, and stays in the cache. A JVM whose archive is not there, or does not fit, starts as
ever. Not here: the command lines that name it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.interop.cache import cache_directory, locked
from tests.interop.toolchain import java_build, java_version, tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

OLDEST_JAVA = 17
"""Older ones write other lists of classes."""
DUMPS_WITHIN = 300.0
_OF_A_LOADER = "source:"
_NUMBER = " id: "
"""Of a class in the list of one JVM; each list counts for itself."""


def options(class_path: Sequence[Path]) -> list[str]:
    """What maps the archive of a class path, if there is one; what is not a jar has to come last in it."""
    archive = archive_of([entry for entry in class_path if entry.suffix == ".jar"])
    if archive is None or not archive.is_file() or not archive.stat().st_size:
        return []
    # A JVM that cannot use it goes on, and would say so among what its program says.
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off"]


def archive_of(jars: Sequence[Path]) -> Path | None:
    """The file for these jars and the JVM that is here; None where there can be none."""
    java = tool("java")
    if java is None or java_version(java) < OLDEST_JAVA:
        return None
    digest = hashlib.sha256(java_build(java).encode())
    for jar in jars:
        digest.update(b"\0" + os.fsencode(jar))
    return cache_directory() / f"classes-{digest.hexdigest()[:12]}.jsa"


def made(jars: Sequence[Path], load: Callable[[Path], None]) -> None:
    """Make the archive of these jars unless it is there.

    Args:
        jars: The class path.
        load: Has JVMs of these jars load classes, each with `listing` in a directory among its options.
    """
    archive = archive_of(jars)
    if archive is None or archive.is_file():
        return
    with locked(archive.stem):
        if not archive.is_file():
            with tempfile.TemporaryDirectory(prefix="classes-", dir=archive.parent) as name:
                lists = Path(name)
                load(lists)
                _dump(jars, merged(path.read_text("utf-8") for path in sorted(lists.glob("*.lst"))), lists, archive)


def listing(lists: Path, name: str) -> tuple[str, ...]:
    """What has a JVM list the classes that it loads."""
    return (f"-XX:DumpLoadedClassList={lists / name}.lst",)


def merged(lists: Iterable[str]) -> list[str]:
    """One list for several, without what their own class loaders have loaded, which no archive takes so."""
    found: dict[str, None] = {}
    for text in lists:
        for line in text.splitlines():
            if line and not line.startswith("#") and _OF_A_LOADER not in line:
                found.setdefault(line.partition(_NUMBER)[0])
    return list(found)


def _dump(jars: Sequence[Path], classes: Sequence[str], directory: Path, archive: Path) -> None:
    java = tool("java")
    assert java is not None
    wanted, draft = directory / "all", directory / archive.name
    wanted.write_text("".join(f"{line}\n" for line in classes), "utf-8")
    command = [java, "-Xshare:dump", f"-XX:SharedClassListFile={wanted}", f"-XX:SharedArchiveFile={draft}"]
    paths = ["-cp", os.pathsep.join(map(str, jars))]
    try:
        subprocess.run([*command, *paths], capture_output=True, timeout=DUMPS_WITHIN, check=True)
    except subprocess.SubprocessError:
        archive.touch()  # a JVM that makes none, or not in time: it is not asked again, and passes over an empty file
    else:
        draft.rename(archive)
