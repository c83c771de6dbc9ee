"""A zip file of rocketpy and its dependencies, for executors whose Python does not have them.

``sc.addPyFile(rocketpy.spark.archive())`` sends it with a job, and Spark puts it on the path of every Python worker. It
is made from the packages that are installed here, and contains only Python modules: msgpack is faster with its compiled
extension, but works without it. The zip contains the client, not the broker.

The modules in it are compiled, for the version of Python that makes the zip. Spark requires its workers to have the
same version anyway. Every worker would compile sources again, because Python does not cache modules in a zip. Sources
beside the compiled modules would double the size of the zip's directory, which Python up to 3.12 reads again for every
imported package whenever PySpark 3.5 begins a task.
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
    "pyspark_rocketmq": "rocketpy",
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
"""The packages in the zip by their import names, with the distributions that they come from."""

_SUFFIXES = (".zip", ".egg", ".jar")
"""The suffixes of files that Spark puts on the path of workers. It sends other files too, but ignores them silently."""
_LEFT_OUT = frozenset({"__pycache__", "_tests", "_tools", "cli", "testing", "tests"})
_NOTICES = ("LICEN", "NOTICE", "COPYING", "METADATA")
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every entry. Nothing uses it, so it is the earliest one that a zip can have."""


class _Entry(NamedTuple):
    name: str
    """Its path in the archive, with slashes."""
    path: Path
    """The file that it is read from."""


def archive(path: str | os.PathLike[str] | None = None) -> str:
    """Make the zip, and return its path.

    Args:
        path: the file to write, which must end in `.zip`, `.egg` or `.jar`. When None, the zip is in a temporary
            directory that is deleted when this process ends, and further calls return the same zip. That suits
            `addPyFile`, because Spark reads the file only while its driver runs.

    Raises:
        ConfigError: Spark would ignore a file with this name, or a package is not installed as files in a directory.
    """
    if path is None:
        return _of_this_process()
    target = Path(path)
    if target.suffix.lower() not in _SUFFIXES:
        raise ConfigError(f"Spark accepts {', '.join(_SUFFIXES)} as packages, and would ignore {target.name!r}")
    _write(target)
    return str(target)


_made: dict[int, str] = {}
"""The archive of each process, by process id, because a forked child must not use or remove that of its parent."""


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
    """Write under a temporary name first, so that no other process reads an incomplete archive."""
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
    """The bytes of an unchecked hash-based `.pyc` (PEP 552), which Python does not compare with a source."""
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
    """The directory of a package."""
    from importlib.util import find_spec

    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ConfigError(f"{package} cannot be put into an archive: it is not installed here")
    folder = Path(spec.origin).parent
    if not folder.is_dir():
        raise ConfigError(f"{package} is already in an archive, {_zip_of(spec)}: pass that one to Spark")
    return folder


def _zip_of(spec: ModuleSpec) -> str:
    return getattr(spec.loader, "archive", None) or str(spec.origin)


def _modules(package: str, folder: Path) -> Iterator[_Entry]:
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder)
        if _LEFT_OUT.isdisjoint(inside.parts):
            yield _Entry(f"{package}/{inside.as_posix()}", path)


def _notices(distribution: str) -> Iterator[_Entry]:
    """The licences, which must accompany copies, and the metadata, which has the versions."""
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
    """The notices of rocketpy, from beside the package in a checkout, or from where an installer has put them.

    They are not looked up by the name of the distribution, because another project has that name on the public index.
    """
    beside = _folder("rocketpy").parent
    folders: Iterable[Path] = [beside, *sorted(beside.glob("rocketpy-*.dist-info/licenses"))]
    for folder in folders:
        if (folder / "NOTICE").is_file():
            yield _Entry("rocketpy/LICENSE", folder / "LICENSE")
            yield _Entry("rocketpy/NOTICE", folder / "NOTICE")
            return
