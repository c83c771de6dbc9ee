"""Kills a worker of Spark in the middle of a partition, once the broker has stored some of what the worker has sent.

The worker says that it is there and waits; the process with the broker looks at what is stored and kills it. So what
the worker has sent before does not depend on how quick anything is.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from pyspark_rocketmq import DefaultSource
from rocketpy.spark.writer.writing import Write
from rocketpy_broker_sim import BlockingLocalCluster

__all__ = ["HALF", "MIDDLE", "PARTITIONS", "ROWS", "Kill", "format_that_dies", "killing", "wait_for_death"]

ROWS, PARTITIONS = 2000, 2
HALF = ROWS // PARTITIONS
MIDDLE = HALF // 2
"""The row of a partition at which the worker dies."""
PATIENCE = 60.0


@attrs.define
class Kill:
    """What happened at a kill."""

    stored: int = 0
    """How many messages of the partition were stored then."""


@contextmanager
def killing(servers: BlockingLocalCluster, topic: str, pipe: Path) -> Iterator[Kill]:
    """Kill the worker that calls `wait_for_death`, once all of partition 0 and some of partition 1 is stored."""
    os.mkfifo(pipe)
    kill = Kill()

    def wait_and_kill() -> None:
        pid = int(pipe.read_text("utf-8"))  # waits for the one who writes it
        # The worker of partition 0 may be starting yet.
        messages = servers.wait_messages(topic, HALF + 1, timeout=PATIENCE)
        kill.stored = sum(message.properties["SPARK_PART"] == "1" for message in messages)
        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=wait_and_kill, daemon=True)
    thread.start()
    yield kill
    thread.join(PATIENCE)
    assert not thread.is_alive(), "nobody waited for death"


# --- in the worker -------------------------------------------------------------------------------------


def wait_for_death(pipe: Path) -> None:
    """Wait until this worker is killed, in the first attempt of a task; what it has sent goes on its way."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber() == 0:
        pipe.write_text(str(os.getpid()), "utf-8")
        threading.Event().wait(PATIENCE)
        raise TimeoutError


@attrs.frozen(kw_only=True)
class DyingWrite(Write):
    """A write whose worker waits for its death in the middle of partition 1."""

    pipe: Path

    def write(self, rows: Iterable[Any], **others: Any) -> Any:
        """Write the rows."""
        return super().write(self._until_death(rows), **others)

    def _until_death(self, rows: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for position, row in enumerate(rows):
            if position == MIDDLE and context.partitionId() == 1:
                wait_for_death(self.pipe)
            yield row


def format_that_dies(pipe: Path) -> Any:
    """A format like ours, whose writer dies."""

    class Dying(DefaultSource):
        @classmethod
        def name(cls) -> str:
            return "dies-half-way"

        def writer(self, schema: Any, overwrite: bool) -> Any:
            made = super().writer(schema, overwrite)
            fields = {field.name: getattr(made._core, field.name) for field in attrs.fields(Write)}
            made._core = DyingWrite(pipe=pipe, **fields)
            return made

    return Dying
