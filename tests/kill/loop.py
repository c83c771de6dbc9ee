"""Running a kill loop in a directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import trio

from tests.interop.ports import port_block
from tests.kill.campaign import Campaign, Outcome
from tests.kill.plan import plan
from tests.kill.servers import Servers


def run(home: Path, cycles: int, seed: int, settings: Mapping[str, str] | None = None) -> tuple[Servers, Outcome]:
    """Run it all; what is left on the disk can be looked at afterwards."""
    with port_block() as base:
        servers = Servers(home, base, settings or {})
        return servers, trio.run(_run, servers, cycles, seed)


async def _run(servers: Servers, cycles: int, seed: int) -> Outcome:
    async with trio.open_nursery() as nursery:
        return await Campaign(servers, nursery).run(plan(cycles, seed))
