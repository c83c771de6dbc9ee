"""rocketpy-store on stores of Apache's broker: clean while it runs and when it was killed, mended for both kinds."""

from __future__ import annotations

import contextlib
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from rocketpy.wire.message_codec import decode_messages
from rocketpy_broker_sim.cli.store.main import main
from rocketpy_broker_sim.store.log.place_holders import PLACE_HOLDER_TAG
from tests.interop.stores import handover
from tests.interop.stores.handover import ORDERS
from tests.interop.stores.test_handover import Stays

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.apache import Apache, Cluster

pytestmark = [
    pytest.mark.interop,
    pytest.mark.older_by_night("both lines keep one format, and both write and read whole stores in test_handover"),
]

PLACE, OFFSET = (ORDERS, 1), 20


def look(command: str, store: Path, *options: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit status and rows."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        status = main([command, str(store), *options, "--json"])
    return status, [json.loads(line) for line in said.getvalue().splitlines()]


def test_a_store_is_clean_while_apaches_broker_runs_and_when_it_was_killed(
    apache: Apache, our_servers: Cluster, tmp_path: Path
) -> None:
    stays = Stays(apache, our_servers.namesrv, tmp_path)
    with stays.stay(stays.theirs(), "one", kill=True, first=True):
        status, rows = look("check", stays.store)
        assert status == 0, rows
    status, rows = look("check", stays.store)
    assert status == 0, rows
    assert rows[-1]["messages"] >= sum(map(len, stays.sent.bodies.values()))
    with stays.stay(stays.ours(), "two", kill=True):
        status, rows = look("check", stays.store)
        assert status == 0, rows
    status, rows = look("check", stays.store)
    assert status == 0, rows


def test_a_repaired_store_is_read_by_both(apache: Apache, our_servers: Cluster, tmp_path: Path) -> None:
    stays = Stays(apache, our_servers.namesrv, tmp_path)
    with stays.stay(stays.theirs(), "one", kill=False, first=True):
        pass
    assert stays.last is not None
    records = stays.last.records
    (lost,) = decode_messages(records[PLACE][OFFSET])
    file, at = divmod(lost.commit_log_offset, 65_536)
    with (stays.store / "commitlog" / f"{file * 65_536:020d}").open("r+b") as log:
        log.seek(at + 100)
        log.write(b"\xff\xff\xff")
    assert look("check", stays.store)[0] == 1
    conf = tmp_path / "broker.conf"  # its messageDelayLevel is not the usual one
    conf.write_text("".join(f"{name}={value}\n" for name, value in stays.settings.items()), "utf-8")
    status, (*_, summary) = look("repair", stays.store, "-c", str(conf))
    assert (status, summary["lostMessages"]) == (0, 1)
    with stays.theirs() as broker:
        found = handover.look(broker.address).records
        assert found.keys() == records.keys()
        for place, known in records.items():
            for offset, record in enumerate(known):
                if (place, offset) == (PLACE, OFFSET):
                    (holder,) = decode_messages(found[place][offset])
                    assert (holder.tags, holder.queue_offset) == (PLACE_HOLDER_TAG, OFFSET)
                else:
                    assert found[place][offset] == record
        for (topic, key), positions in list(stays.sent.keys.items())[::20]:
            expected = [position for position in positions if position != lost.commit_log_offset]
            assert handover.by_key(broker.address, topic, key) == expected
        broker.process.kill()  # it takes sixteen seconds to stop in order, and was given nothing to write
    with stays.ours() as broker:
        found = handover.look(broker.address).records
        without = [record for offset, record in enumerate(records[PLACE]) if offset != OFFSET]
        assert found == {**records, PLACE: without}
    assert look("check", stays.store)[0] == 0
