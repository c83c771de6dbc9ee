"""The Java that Spark needs. Standard library only: `dev` asks this before anything is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

OLDEST = 17
ADVICE = (
    f"Install one (on Debian and Ubuntu: apt-get install openjdk-{OLDEST}-jre-headless; on macOS: brew install "
    f"openjdk@{OLDEST}; elsewhere: https://adoptium.net), and set JAVA_HOME if it is not the java on PATH."
)


class NoSparkError(Exception):
    """Spark cannot run here; the text says what to install."""


def check_java() -> None:
    """Refuse a machine without a Java for Spark, because the error of Spark itself does not help.

    Raises:
        NoSparkError: there is no Java, or too old a one.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    if java is None:
        where = f"JAVA_HOME is {home}, where there is no bin/java" if home else "there is no java on PATH"
        raise NoSparkError(f"Spark needs Java {OLDEST} or newer, but {where}. {ADVICE}")
    ran = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    if ran.returncode or found is None:
        raise NoSparkError(f"Spark needs Java {OLDEST} or newer, but {java} does not run. {ADVICE}")
    if int(found[1]) < OLDEST:
        raise NoSparkError(f"Spark needs Java {OLDEST} or newer, but {java} is Java {found[1]}. {ADVICE}")
