"""The C++ client: the shared library in the wheel of `rocketmq`, driven through its C face by Python.

The library brings its own zlib, boost and libevent. Of the system it wants, beside libc, `libstdc++.so.6` and
`libgcc_s.so.1` (Debian: libstdc++6 and libgcc-s1).
"""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache
from pathlib import Path

from tests.interop.clients.client import Client
from tests.interop.clients.wheels import unpacked
from tests.interop.failure import InteropError

VERSION = "0.4.4"
DRIVER = Path(__file__).resolve().parent / "native" / "driver.py"
WAYS = ("sync", "async", "oneway", "batch", "ordered", "delayed", "large")
_WANTED = {"libstdc++.so.6": "libstdc++6", "libgcc_s.so.1": "libgcc-s1"}


@cache
def cpp() -> Client | str:
    """The client, or the reason why it cannot be had here."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return f"the wheel of the C++ client is for Linux on x86_64, this is {platform.system()} {platform.machine()}"
    for library, package in _WANTED.items():
        try:
            ctypes.CDLL(library)
        except OSError:
            return f"the C++ client wants {library}: install it (Debian: apt-get install {package})"
    try:
        place = unpacked("rocketmq", VERSION)
    except InteropError as error:
        return str(error)
    return Client("C++", (sys.executable, str(DRIVER)), WAYS, environment={"PYTHONPATH": str(place)})
