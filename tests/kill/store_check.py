"""Whether log, queues and index agree on the disk, as `rocketpy-store check` sees it."""

from __future__ import annotations

from rocketpy_broker_sim.store.inspect.check import Check
from rocketpy_broker_sim.store.inspect.findings import DAMAGE, RECOVERED
from rocketpy_broker_sim.store.inspect.layout import open_layout
from rocketpy_broker_sim.store.inspect.read_only import ReadOnlyStorage
from tests.kill.servers import Servers


def problems(servers: Servers, when: str, *, killed: bool) -> list[str]:
    """What is damaged; after an orderly stop also what the next start would have to mend."""
    kinds = (DAMAGE,) if killed else (DAMAGE, RECOVERED)
    layout = open_layout(ReadOnlyStorage(servers.store), servers.store_settings())
    try:
        found = [each for each in Check(layout).findings() if each.kind in kinds]
    finally:
        layout.close()
    return [f"{when}: {each.path} at {each.position}: {each.text}" for each in found]
