"""The page about the servers has every key of the state of a broker."""

from __future__ import annotations

import re
from pathlib import Path

import trio
from trio.testing import MockClock

from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import broker_and_client

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "servers.md"


class WithDisk(MemoryStorage):
    """A storage that can say how large it is."""

    def space(self) -> tuple[int, int]:
        return 1 << 30, 1 << 29


def keys_on_page() -> list[str]:
    section = PAGE.read_text("utf-8").partition("## State of a broker\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    return [key for row in rows for key in re.findall(r"`([^`]+)`", row)]


async def test_the_page_lists_the_keys_of_the_state_of_a_broker(autojump_clock: MockClock) -> None:
    shown = keys_on_page()
    assert len(shown) == len(set(shown))
    async with broker_and_client(storage=WithDisk(), transient_store_pool_enable=True) as (broker, client):
        await client.send(properties="DELAY\x011\x02")
        await trio.sleep(2)
        keys = broker.runtime_info()
        told = {re.sub(r"^scheduleMessageOffset_\d+$", "scheduleMessageOffset_N", key) for key in keys}
        told = {re.sub(r"^commitLogDiskRatio_.*:/commitlog$", "commitLogDiskRatio_PATH", key) for key in told}
    assert set(shown) - told == set(), "the page has keys that no broker tells"
    assert told - set(shown) == set(), f"list these in {PAGE.name}"
