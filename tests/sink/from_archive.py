"""Run by test_archive.py in an interpreter that finds nothing but the standard library and an archive.

Not a test module. It imports every module that lies in the archive, and sends one message with what it finds there.

Usage: python -I -S from_archive.py ARCHIVE NAMESRV
"""

from __future__ import annotations

import importlib
import pkgutil
import sys


def main(archive: str, namesrv: str) -> None:
    sys.path.insert(0, archive)
    import rocketpy
    import rocketpy.spark
    import rocketpy.sync

    names = [module.name for module in pkgutil.walk_packages(rocketpy.__path__, "rocketpy.")]
    for name in names:
        importlib.import_module(name)
    strange = {
        name for name, module in sys.modules.items() if "site-packages" in (getattr(module, "__file__", "") or "")
    }
    assert not strange, strange
    with rocketpy.sync.Producer("archived", namesrv=namesrv) as producer:
        producer.send(rocketpy.Message("Archived", b"one", keys=["k"]))
    try:
        rocketpy.spark.archive()
    except rocketpy.ConfigError as error:
        print(error)
    print(f"{len(names)} modules from {rocketpy.__file__}")


if __name__ == "__main__":
    main(*sys.argv[1:])
