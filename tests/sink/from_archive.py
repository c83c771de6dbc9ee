"""Run by test_archive.py in an interpreter that finds nothing but the standard library and an archive.

Not a test module. It imports every module that lies in the archive, and sends one message with what it finds there.

Usage: python -I -S from_archive.py ARCHIVE NAMESRV
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from contextlib import suppress
from datetime import UTC, datetime


def try_msgpack() -> None:
    """The one of the archive is written in Python, and has to behave as the compiled one does."""
    import msgpack

    from rocketpy.errors import SerializationError
    from rocketpy.serialization import serializer

    assert msgpack.Packer.__module__ == "msgpack.fallback"
    form = serializer("msgpack")
    value = {
        "a": [1, -(2**63), 2**64 - 1, 2.5, None, True, b"\xff"],
        "t": datetime(2013, 1, 2, microsecond=5, tzinfo=UTC),
    }
    assert form.decode(form.encode(value)) == value
    for body in (b"", b"\xc1", b"\x91" * 100_000, b"\xdd\xff\xff\xff\xff", b"\x81\x01\x02", b"\xa1\xff", b"\xd4\x05a"):
        with suppress(SerializationError):
            raise AssertionError(f"{body[:8]!r} was read as {form.decode(body)!r}")
    with suppress(SerializationError):
        raise AssertionError(f"{form.encode({'n': 2**64})!r} was written")


NEED_SPARK = {f"rocketpy.spark.source.{name}" for name in ("arrow", "spark_classes", "values")}
NEED_SPARK |= {f"rocketpy.spark.writer.{name}" for name in ("arrow_rows", "spark_classes")}


def import_all(names: list[str]) -> None:
    """Each of them; the archive holds neither opentelemetry nor prometheus-client, and what needs these extras says so.

    Nor does it hold PySpark and pyarrow: executors that read have them.
    """
    refused = {}
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            refused[name] = str(error)
    assert set(refused) == {"rocketpy.otel", "rocketpy.prometheus", *NEED_SPARK}, refused
    for extra in ("otel", "prometheus"):
        assert f"install rocketpy with its extra, rocketpy[{extra}]" in refused[f"rocketpy.{extra}"], refused


def main(archive: str, namesrv: str) -> None:
    sys.path.insert(0, archive)
    import rocketpy
    import rocketpy.spark
    import rocketpy.sync

    names = [module.name for module in pkgutil.walk_packages(rocketpy.__path__, "rocketpy.")]
    import_all(names)
    strange = {
        name for name, module in sys.modules.items() if "site-packages" in (getattr(module, "__file__", "") or "")
    }
    assert not strange, strange
    try_msgpack()
    with rocketpy.sync.Producer("archived", namesrv=namesrv) as producer:
        producer.send(rocketpy.Message("Archived", b"one", keys=["k"]))
    try:
        rocketpy.spark.archive()
    except rocketpy.ConfigError as error:
        print(error)
    print(f"{len(names)} modules from {rocketpy.__file__}")


if __name__ == "__main__":
    main(*sys.argv[1:])
