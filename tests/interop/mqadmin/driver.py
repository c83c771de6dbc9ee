"""Apache's command `mqadmin`, called many times in one JVM (`java/Mqadmin.java`)."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.interop import probe
from tests.interop.drivers import Driver, running
from tests.interop.failure import InteropError
from tests.interop.process import JavaProcess

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.interop.apache import Apache

GRACE = 30.0
"""Seconds for the answer beyond those of the call."""


@dataclass
class Mqadmin(Driver):
    """The JVM and the number of calls it has answered."""

    commands: tuple[str, ...] = ()
    """The names of all commands that this release has."""

    def call(self, arguments: Sequence[str], seconds: float, *, enough: str = "") -> str:
        """What one call prints; one that has no end is interrupted when a form of text is there.

        Raises:
            InteropError: It came to no end, or did not print that.
        """
        count = len(self.of("said"))
        assert isinstance(self.process, JavaProcess)
        request = {"arguments": [*arguments], "seconds": seconds} | ({"enough": enough} if enough else {})
        self.process.write_line(json.dumps(request))
        said = self.wait("said", count + 1, seconds + GRACE)[count]
        if said["late"]:
            raise InteropError(f"mqadmin {' '.join(arguments)}: no end within {seconds:g} s\n{said['text']}")
        text: str = said["text"]
        return text

    def call_until(self, arguments: Sequence[str], seconds: float, wanted: re.Pattern[str]) -> str:
        """The same, called again until a line is of a form."""

        def said() -> str | None:
            text = self.call(arguments, seconds)
            return text if wanted.search(text) else None

        return probe.eventually(said, f"{wanted.pattern!r} in what mqadmin {' '.join(arguments)} prints", seconds)


@contextmanager
def mqadmin(apache: Apache, directory: Path) -> Iterator[Mqadmin]:
    """Run the JVM; commands leave temporary files in the directory."""
    with running(apache, "Mqadmin", jvm_options=("-Xmx384m", f"-Djava.io.tmpdir={directory}")) as driver:
        opened = Mqadmin(driver.process)
        [ready] = opened.wait("ready")
        opened.commands = tuple(ready["commands"])
        yield opened
