"""A driver is killed after a micro-batch was sent and before Spark knew: nothing is missing, repeats can be dropped."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocketpy.spark import provenance_of
from rocketpy_broker_sim import BlockingLocalCluster
from tests.spark.dying_job import NEVER, TOPIC, work_off
from tests.spark.local_spark import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = 240.0
FILES, LINES = 4, 30
KILLED_IN = 2


def drive(home: Path, namesrv: str, killed_in: int) -> int:
    """Run the job in a process of its own; its exit status."""
    command = [sys.executable, "-m", "tests.spark.dying_job", str(home), namesrv, str(killed_in)]
    with (home / "said").open("ab") as said:
        return subprocess.run(command, cwd=ROOT, stdout=said, stderr=said, timeout=LONG, check=False).returncode


@pytest.mark.one_spark("a batch that runs again from its checkpoint is asked on both lines in test_streams")
def test_a_driver_that_dies_loses_no_row_and_repeats_only_what_says_so(
    spark: SparkSession, servers: BlockingLocalCluster, tmp_path: Path
) -> None:
    """An application dies in a micro-batch of its query; this one goes on from its checkpoint."""
    (tmp_path / "in").mkdir()
    wanted = [f"{file}-{line}" for file in range(FILES) for line in range(LINES)]
    for file in range(FILES):
        text = "".join(f"{each}\n" for each in wanted[file * LINES : (file + 1) * LINES])
        (tmp_path / "in" / f"{file}.txt").write_text(text, "utf-8")
    said = tmp_path / "said"
    assert drive(tmp_path, servers.name_server_addresses, KILLED_IN) == -signal.SIGKILL, said.read_text("utf-8")
    assert len(servers.messages(TOPIC)) == (KILLED_IN + 1) * LINES
    work_off(spark, tmp_path, servers.name_server_addresses, NEVER)

    messages = servers.messages(TOPIC)
    assert len(messages) == (FILES + 1) * LINES
    origins = Counter(provenance_of(message) for message in messages)
    repeated = [origin for origin, times in origins.items() if times > 1]
    assert len(repeated) == LINES
    assert {origin.step for origin in repeated if origin is not None} == {KILLED_IN}
    bodies = {provenance_of(message): message.body.decode() for message in messages}
    assert sorted(bodies.values()) == sorted(wanted)
    assert all(message.body.decode() == bodies[provenance_of(message)] for message in messages)
