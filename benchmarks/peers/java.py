"""Apache's Java client, which the interop harness gets from Maven, with a driver that is compiled here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers.peer import Launch, PeerMake
from benchmarks.processes import Child

SOURCES = Path(__file__).resolve().parent / "java"
WARM_TURNS = 3
"""The optimizing compiler needs thousands of calls of each path, and works in parallel to them."""
SHAPES = (
    "one",
    "64",
    "threads-64",
    "threads-8",
    "hot-64",
    "hot-8",
    "batch",
    "auto-batch",
    "auto-threads-64",
    "transact-one",
    "transact-64",
    "consume",
    "new-consume",
    "orderly",
    "lite",
    "latency",
    "start",
)


def java() -> PeerMake | str:
    """Return Apache's client, or the reason why it is not available."""
    from tests.interop import compiler, jvm, settings
    from tests.interop.apache import Apache, unavailable
    from tests.interop.failure import InteropError
    from tests.interop.servers import temporary_home

    missing = unavailable()
    if missing is not None:
        return missing
    try:
        release = Apache.resolve()
        class_path = (compiler.compiled(release.version, release.jars, SOURCES), *release.jars)
    except InteropError as error:
        return str(error)

    @contextmanager
    def installed() -> Iterator[Launch]:
        with temporary_home("bench-java") as home:
            settings.prepare_home(home)

            def launch(*arguments: str) -> Child:
                main = "Start" if arguments else "Peer"
                program, *options = jvm.client_command(home, class_path, main)
                return Child(*options, *arguments[1:], program=program, env=jvm.environment(home))

            yield launch

    return PeerMake("java", f"Java client {release.version}", installed, WARM_TURNS)
