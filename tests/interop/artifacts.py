"""Apache RocketMQ's released jars, resolved by Maven through a pom of our own.

Maven keeps its repository inside the cache, and the class path it found is written down beside it, so a
second run starts no Maven and needs no network. Not here: which of the jars' classes are started.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.interop.cache import cache_directory, locked
from tests.interop.failure import InteropError, section
from tests.interop.toolchain import tool

if TYPE_CHECKING:
    from pathlib import Path

MODULES = ("rocketmq-namesrv", "rocketmq-broker", "rocketmq-client", "rocketmq-tools")
PLUGIN_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"
ATTEMPTS = 3
SECONDS_PER_ATTEMPT = 250
"""An attempt goes on with the jars that are there by then, and all of them together take less than a test may."""
_STALLED_MS = 20_000
"""A download of which nothing comes for so long is given up; Maven itself waits for half an hour."""

_DEPENDENCY = (
    "<dependency><groupId>org.apache.rocketmq</groupId><artifactId>{module}</artifactId>"
    "<version>{version}</version></dependency>"
)
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>rocketpy.interop</groupId>
  <artifactId>apache-rocketmq</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    {dependencies}
  </dependencies>
</project>
"""


@dataclass(frozen=True)
class Artifacts:
    """The jars of one release and where they are written down."""

    version: str

    @property
    def pom(self) -> str:
        """The project file whose runtime class path is the release."""
        lines = (_DEPENDENCY.format(module=module, version=self.version) for module in MODULES)
        return _POM.format(dependencies="\n    ".join(lines))

    @property
    def record(self) -> Path:
        """The file that lists the jars; its name changes with the pom."""
        digest = hashlib.sha256(self.pom.encode()).hexdigest()[:12]
        return cache_directory() / f"classpath-{self.version}-{digest}.txt"

    def resolved(self) -> tuple[Path, ...] | None:
        """The jars if every one of them is in the cache, else None."""
        if not self.record.is_file():
            return None
        root = cache_directory()
        jars = tuple(root / line for line in self.record.read_text(encoding="utf-8").splitlines())
        return jars if jars and all(jar.is_file() for jar in jars) else None

    def resolve(self) -> tuple[Path, ...]:
        """The jars, downloaded first when the cache lacks any.

        Raises:
            InteropError: Maven is missing or failed; the message ends with what it said.
        """
        with locked(f"maven-{self.version}"):
            jars = self.resolved()
            if jars is None:
                self._download()
                jars = self.resolved()
        if jars is None:
            raise InteropError(
                f"Maven succeeded, but jars listed in {self.record} are missing: delete the cache and retry"
            )
        return jars

    def _download(self) -> None:
        project = cache_directory() / f"maven-{self.version}"
        project.mkdir(exist_ok=True)
        (project / "pom.xml").write_text(self.pom, encoding="utf-8")
        listing = project / "classpath.txt"
        said = ""
        for attempt in range(ATTEMPTS):
            # -U: a failed download is remembered as missing for a day otherwise.
            code, said = _maven(project, listing, *(["-U"] if attempt else []))
            if code == 0:
                self._write_record(listing.read_text(encoding="utf-8"))
                return
        raise InteropError(
            f"Maven could not resolve Apache RocketMQ {self.version} in {ATTEMPTS} attempts; check the network, or "
            "point ROCKETPY_INTEROP_CACHE at a cache that is already filled\n" + section("mvn", said)
        )

    def _write_record(self, class_path: str) -> None:
        root = cache_directory()
        relative = [os.path.relpath(entry, root) for entry in class_path.strip().split(os.pathsep)]
        draft = self.record.with_suffix(".tmp")
        draft.write_text("\n".join(relative) + "\n", encoding="utf-8")
        draft.replace(self.record)


def _maven(project: Path, listing: Path, *extra: str) -> tuple[int, str]:
    mvn = tool("mvn")
    if mvn is None:
        raise InteropError("no mvn on PATH: Apache RocketMQ's jars are resolved by Maven")
    options = [
        f"-Dmaven.repo.local={cache_directory() / 'repository'}",
        f"-Dmdep.outputFile={listing}",
        "-DincludeScope=runtime",
        "-Dstyle.color=never",
        f"-Daether.connector.requestTimeout={_STALLED_MS}",
        f"-Dmaven.wagon.rto={_STALLED_MS}",
    ]
    command = [mvn, "--batch-mode", "--quiet", *extra, *options, PLUGIN_GOAL]
    try:
        done = subprocess.run(
            command,
            cwd=project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_PER_ATTEMPT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, f"no end after {SECONDS_PER_ATTEMPT} s"
    return done.returncode, done.stdout[-4_000:]
