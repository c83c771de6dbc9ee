"""The quickstart on Apache's name server and broker, with records as wide as those of the flights."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.interop.forks import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interop.apache import Cluster

pytestmark = pytest.mark.interop

COUNT = 4_000
CARRIERS = ("AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN")
COLUMNS = (
    "year",
    "month",
    "day",
    "dep_time",
    "dep_delay",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "time_hour",
)
SECONDS = 120


def flights() -> str:
    """As many lines as a small airport has flights, all different."""
    lines = [
        f"2013,{n % 12 + 1},{n % 28 + 1},{n % 2400},{n % 90 - 10},{CARRIERS[n % 8]},{n},N{n:05},EWR,ORD,2013-01-01 05"
        for n in range(COUNT)
    ]
    return "\n".join((",".join(COLUMNS), *lines, ""))


def test_every_record_arrives_once(apache_cluster: Cluster, fresh_name: Callable[[str], str], tmp_path: Path) -> None:
    file, topic = tmp_path / "flights.csv", fresh_name("Quickstart")
    file.write_text(flights(), "utf-8")
    command = [sys.executable, "-m", "examples.quickstart", str(file), "--key", "flight", "--tag", "carrier"]
    ran = subprocess.run(
        [*command, "--namesrv", apache_cluster.namesrv, "--topic", topic],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    said = " ".join(ran.stdout.split())
    assert "every record arrived exactly once" in said
    assert f"{COUNT:,} sent" in said
    assert f"{COUNT:,} received" in said
    for carrier in CARRIERS:
        assert f"{carrier} {COUNT // 8:,}" in said
