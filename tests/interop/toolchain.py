"""Which Java and Maven this machine has, and whether a test may be skipped for want of them.

A contributor without Java sees a skip that says what is missing; where CI is set nothing is skipped,
because a suite that silently ran half of itself proves nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

OLDEST_JAVA = 11


def tool(name: str) -> str | None:
    """The path of `java`, `javac` or `mvn`; JAVA_HOME goes before PATH, as for Java's own tools."""
    home = os.environ.get("JAVA_HOME")
    if home and (candidate := Path(home) / "bin" / name).is_file():
        return str(candidate)
    return shutil.which(name)


def java_version(java: str) -> int:
    """The feature release of a `java` binary (8, 11, 17, ...), 0 when it does not say."""
    return parse_java_version(java_build(java))


@cache
def java_build(java: str) -> str:
    """What a `java` binary says of itself, nothing when it does not."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stderr + done.stdout


def parse_java_version(text: str) -> int:
    """Read the feature release out of what `java -version` prints (`1.8.0` counts as 8)."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if not found:
        return 0
    first = int(found[1])
    return int(found[2] or 0) if first == 1 else first


def missing_tools(*, resolved: bool) -> str | None:
    """Say what keeps Apache's servers from running here, or None.

    Args:
        resolved: The jars are in the cache already, so Maven is not needed.
    """
    java = tool("java")
    if java is None:
        return f"no java on PATH: install a JDK >= {OLDEST_JAVA} to run the tests beside Apache RocketMQ"
    if java_version(java) < OLDEST_JAVA:
        return f"{java} is Java {java_version(java)}: the tests beside Apache RocketMQ want a JDK >= {OLDEST_JAVA}"
    if tool("javac") is None:
        return "java is a runtime without javac: install a JDK, the drivers are compiled here"
    if not resolved and tool("mvn") is None:
        return "no mvn on PATH: Apache RocketMQ's jars are resolved by Maven"
    return None


def nothing_may_be_skipped() -> bool:
    """Whether this is a run where every test has to run (CI set to something that is not a no)."""
    return os.environ.get("CI", "").strip().lower() not in {"", "0", "false", "no"}
