"""One zip of rocketpy and what it needs, for executors whose Python has neither.

``sc.addPyFile(rocketpy.spark.archive())`` sends it with a job; Spark puts it on the path of every Python worker. It is
made from what is installed here, Python modules only: msgpack, which is quicker with its compiled part, works without.
It holds the client, not the broker.

Modules lie in it compiled, for the version of Python that makes it, which Spark asks of its workers anyway. Sources
would be compiled again by every worker, since a zip keeps no cache; and beside the compiled they would double the
directory, which Python up to 3.12 reads again for every package in use whenever PySpark 3.5 begins a task.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rocketpy.errors import ConfigError

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from zipfile import ZipFile

__all__ = ["PACKAGES", "archive"]

PACKAGES = {
    "rocketpy": "rocketpy",
    "attr": "attrs",
    "attrs": "attrs",
    "idna": "idna",
    "msgpack": "msgpack",
    "outcome": "outcome",
    "sniffio": "sniffio",
    "sortedcontainers": "sortedcontainers",
    "tenacity": "tenacity",
    "trio": "trio",
}
"""What goes in: packages as they are imported, and the distributions that they come from."""

_SUFFIXES = (".zip", ".egg", ".jar")
"""What Spark puts on the path of workers; files of any other name it sends along and leaves aside without a word."""
_LEFT_OUT = frozenset({"__pycache__", "_tests", "_tools", "testing", "tests"})
_NOTICES = ("LICEN", "NOTICE", "COPYING", "METADATA")
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every entry: the earliest that a zip knows, since nobody asks."""


class _Entry(NamedTuple):
    name: str
    path: Path


def archive(path: str | os.PathLike[str] | None = None) -> str:
    """Make the zip, and return where it lies.

    Args:
        path: the file to write, `.zip` at its end. Left out, the zip lies in a folder of its own that goes when this
            process ends, and further calls return the same one: right for `addPyFile`, since Spark reads the file as
            long as its driver lives.

    Raises:
        ConfigError: Spark would ignore a file of this name, or what has to go in is not installed as files.
    """
    if path is None:
        return _of_this_process()
    target = Path(path)
    if target.suffix.lower() not in _SUFFIXES:
        raise ConfigError(f"Spark takes {', '.join(_SUFFIXES)} as packages and would ignore {target.name!r}")
    _write(target)
    return str(target)


_made: dict[int, str] = {}
"""The archive of this process, by its id: a fork neither uses nor removes that of its parent."""


def _of_this_process() -> str:
    if os.getpid() not in _made:
        import atexit
        import tempfile

        folder = Path(tempfile.mkdtemp(prefix="rocketpy-"))
        atexit.register(_remove, os.getpid(), folder)
        _write(folder / "rocketpy.zip")
        _made[os.getpid()] = str(folder / "rocketpy.zip")
    return _made[os.getpid()]


def _remove(owner: int, folder: Path) -> None:
    import shutil

    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _write(target: Path) -> None:
    """Write under another name first: nobody finds half an archive."""
    from zipfile import ZIP_DEFLATED, ZipFile

    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with ZipFile(unfinished, "w", ZIP_DEFLATED) as into:
            for entry in _entries():
                _add(into, entry)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _add(into: ZipFile, entry: _Entry) -> None:
    from zipfile import ZipInfo

    data = entry.path.read_bytes()
    name = entry.name
    if name.endswith(".py"):
        data, name = _compiled(data, name), f"{name}c"
    info = ZipInfo(name, _EPOCH)
    info.external_attr = 0o644 << 16
    into.writestr(info, data, into.compression)


def _compiled(source: bytes, name: str) -> bytes:
    """The bytes of a `.pyc` that is taken as it is: known by a hash (PEP 552), and never compared with a source."""
    import marshal
    from importlib.util import MAGIC_NUMBER, source_hash

    unchecked = 1
    code = compile(source, name, "exec", dont_inherit=True)
    return b"".join([MAGIC_NUMBER, unchecked.to_bytes(4, "little"), source_hash(source), marshal.dumps(code)])


def _entries() -> Iterator[_Entry]:
    for package in PACKAGES:
        yield from _modules(package, _folder(package))
    for package in sorted(set(PACKAGES.values())):
        yield from _notices(package)


def _folder(package: str) -> Path:
    """Where the files of a package lie."""
    from importlib.util import find_spec

    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ConfigError(f"{package} cannot be put into an archive: it is not installed here")
    folder = Path(spec.origin).parent
    if not folder.is_dir():
        raise ConfigError(f"{package} lies in an archive already, {_zip_of(spec)}: give Spark that one")
    return folder


def _zip_of(spec: ModuleSpec) -> str:
    return getattr(spec.loader, "archive", None) or str(spec.origin)


def _modules(package: str, folder: Path) -> Iterator[_Entry]:
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder)
        if _LEFT_OUT.isdisjoint(inside.parts):
            yield _Entry(f"{package}/{inside.as_posix()}", path)


def _notices(distribution: str) -> Iterator[_Entry]:
    """The licences, which have to go where copies go, and the metadata, which tells versions."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import distribution as installed

    if distribution == "rocketpy":
        yield from _own_notices()
        return
    try:
        files = installed(distribution).files or []
    except PackageNotFoundError:
        return
    for file in files:
        if ".dist-info" in file.parts[0] and file.name.upper().startswith(_NOTICES):
            yield _Entry(file.as_posix(), Path(str(file.locate())))


def _own_notices() -> Iterator[_Entry]:
    """Ours, from beside the package in a checkout, or from where an installer put them.

    Not by the name of the distribution: on the public index another project has it.
    """
    beside = _folder("rocketpy").parent
    folders: Iterable[Path] = [beside, *sorted(beside.glob("rocketpy-*.dist-info/licenses"))]
    for folder in folders:
        if (folder / "NOTICE").is_file():
            yield _Entry("rocketpy/LICENSE", folder / "LICENSE")
            yield _Entry("rocketpy/NOTICE", folder / "NOTICE")
            return
