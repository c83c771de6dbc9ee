"""A store whose oldest files our broker has deleted: Apache's broker opens it, reads what is left, and goes on.

Its queues begin behind 0, so groups without offsets begin in them where they are told to.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop import beginnings, lines, probe
from tests.interop.ours import our_broker
from tests.interop.questions import MAX, MIN, SEND_V2, message
from tests.interop.stores import handover
from tests.interop.stores.handover import ORDERS, SETTINGS, Sent

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.apache import Apache, Cluster

pytestmark = pytest.mark.interop

NAME = "broker-cleaned"
DELETE_EXPIRED_COMMITLOG = 329
SILENT = ("Silent", 0)
EARLY = 7
WHERE, GONE, LEFT = "Where", range(-4, -2), range(-2, 0)
"""A topic in which groups begin, what is deleted of it, and what is left."""
STORE = {
    **SETTINGS,
    "fileReservedTime": 0,
    "deleteCommitLogFilesInterval": 0,
    "deleteConsumeQueueFilesInterval": 0,
    "flushConsumeQueueThoroughInterval": 500,
}
"""What is deleted has to be vouched for, which is done with a thorough flush."""


def send(broker: str, number: int) -> int:
    """Send to the topic that falls silent; the offset of the message."""
    properties = f"UNIQ_KEY\x01{number:032X}\x02WAIT\x01true\x02"
    answer = probe.call(broker, SEND_V2, message(*SILENT, i=properties, h=number), b"early %d" % number)
    assert answer.code == 0, answer.remark
    return int(answer.fields["queueOffset"])


def names(store: Path, folder: str) -> list[str]:
    return sorted(path.name for path in (store / folder).iterdir())


def clean(broker: str, store: Path) -> None:
    """Have old files deleted, again until they are: the checkpoint has to vouch for what is behind them first."""

    def is_done() -> bool | None:
        assert probe.call(broker, DELETE_EXPIRED_COMMITLOG, {}).code == 0
        left = names(store, "commitlog")  # the one that is written to, and the one that is made ahead
        if len(left) > 2 or handover.end(broker, MIN, SILENT) != EARLY:
            return None
        if min(handover.end(broker, MIN, (WHERE, queue)) for queue in range(beginnings.QUEUES)) == 0:
            return None
        # The queues follow the log one after the other.
        return min(low for low, _ in handover.look(broker).ends.values()) > 0 or None

    probe.eventually(is_done, "old files to go", 30.0)


@pytest.mark.older_by_night("both lines keep one format; this case of the older one is left to the night")
@pytest.mark.parametrize("kill", [False, True])
def test_what_is_left_is_read_and_gone_on_with(
    apache: Apache, our_servers: Cluster, tmp_path: Path, fresh_name: Callable[[str], str], kill: bool
) -> None:
    namesrv, sent, store = our_servers.namesrv, Sent(), tmp_path / "store"
    with our_broker(namesrv, name=NAME, home=tmp_path, overrides=STORE) as ours:
        handover.make_topics(ours.address)
        probe.create_topic(ours.address, SILENT[0], queues=1)
        probe.create_topic(ours.address, WHERE, queues=beginnings.QUEUES)
        assert [send(ours.address, number) for number in range(EARLY)] == list(range(EARLY))
        probe.wait_route(namesrv, WHERE)
        beginnings.send(namesrv, WHERE, GONE)
        handover.fill(ours.address, sent, "one")
        handover.fill(ours.address, sent, "two")
        clean(ours.address, store)
        beginnings.send(namesrv, WHERE, LEFT)
        before = handover.look(ours.address)
        assert [handover.end(ours.address, code, SILENT) for code in (MIN, MAX)] == [EARLY, EARLY]
        if kill:
            ours.process.kill()
    assert min(low for low, _ in before.ends.values()) > 0
    with apache.broker(namesrv, name=NAME, home=tmp_path, overrides=STORE) as theirs:
        after = handover.look(theirs.address)
        assert after.records == before.records
        assert {place: high for place, (_, high) in after.ends.items()} == {
            place: high for place, (_, high) in before.ends.items()
        }
        if lines.of(apache.version).finds_times:
            assert after.ends == before.ends
        assert send(theirs.address, EARLY) == EARLY
        if not kill:
            probe.wait_route(namesrv, WHERE)
            expected = beginnings.AS_TOLD | {"first": (*LEFT, *beginnings.AS_TOLD["first"])}
            beginnings.check_beginnings(apache, namesrv, WHERE, fresh_name(NAME), expected)
        handover.fill(theirs.address, sent, "three")
        last = handover.look(theirs.address)
    with our_broker(namesrv, name=NAME, home=tmp_path, overrides=STORE) as ours:
        found = handover.look(ours.address)
        for place, records in found.records.items():
            assert records == last.records[place][-len(records) :], place
        assert {place: high for place, (_, high) in found.ends.items()} == {
            place: high for place, (_, high) in last.ends.items()
        }
        assert send(ours.address, EARLY + 1) == EARLY + 1
        assert found.bodies()[ORDERS, 0][-1] == sent.bodies[ORDERS, 0][-1]
