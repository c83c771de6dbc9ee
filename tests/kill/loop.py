"""Running a kill loop in a directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import trio

from tests.interop.ports import port_block
from tests.kill.campaign import Campaign, Outcome
from tests.kill.guard import guarding
from tests.kill.plan import plan
from tests.kill.servers import Servers


def run(
    home: Path, cycles: int, seed: int, settings: Mapping[str, str] | None = None, least_acked: int = 0
) -> tuple[Servers, Outcome]:
    """Run it all; what is left on the disk can be looked at afterwards.

    Args:
        home: Where everything is put.
        cycles: How often the broker is killed.
        seed: Says what is done when.
        settings: Of the broker, beside those of every run.
        least_acked: How many sends shall be acknowledged before the producers stop.
    """
    with port_block() as base:
        servers = Servers(home, base, settings or {})
        return servers, trio.run(_run, servers, cycles, seed, least_acked)


async def _run(servers: Servers, cycles: int, seed: int, least_acked: int) -> Outcome:
    with guarding() as guard:
        async with trio.open_nursery() as nursery:
            return await Campaign(servers, nursery, guard, least_acked).run(plan(cycles, seed))
