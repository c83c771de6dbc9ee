"""All attacks with one request code on one server or client, and their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rocketpy.wire.codes import RequestCode, ResponseCode
from tests.hostile import attacks_on_clients
from tests.hostile.attacks import attacks, small
from tests.hostile.frames import request
from tests.hostile.known import KNOWN
from tests.hostile.measure import SLACK, TRIES, Attack, Reading, attack, kept, later
from tests.hostile.measured import Measured
from tests.hostile.peer import Peer, wait_until
from tests.hostile.routed import Routed
from tests.hostile.samples import ATTACKED, small_fields
from tests.hostile.served_client import client_of, unknown
from tests.hostile.shapes import dump
from tests.hostile.world import World

_WHOLE_TABLES = {
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    RequestCode.GET_BROKER_CONSUME_STATS,
    RequestCode.GET_KVLIST_BY_NAMESPACE,
}
"""Their answers grow with what other attacks have left: what large tables cost, `test_tables` tells."""


class Result(NamedTuple):
    """Every reading of a code."""

    routed: Routed
    readings: list[Reading]

    def unexpected(self) -> list[str]:
        """What is wrong and not known to be."""
        known = KNOWN.get(str(self.routed), frozenset())
        lines = [
            f"{reading}\n    {fault}"
            for reading in self.readings
            if reading.name not in known
            for fault in reading.faults
        ]
        names = {reading.name for reading in self.readings}
        return lines + [f"{name}: known to fail, but there is no such attack" for name in known - names]


def run(world: World, each: Routed, *, most_tries: int = TRIES) -> Result:
    """Make all attacks with one code. A server or client that does not survive is started again."""
    if each.role == "client":
        return _run_on_client(world, each, most_tries)
    served = world.served[each.role]
    world.is_fresh = False
    if each.code in _WHOLE_TABLES or not served.lives or not served.answers():
        world.restart()
    prepare(world)
    with Peer(served.address) as peer:
        expected = peer.ask(small(each.code)()).code

    def afresh() -> None:
        world.restart()
        prepare(world)

    readings = _readings(served, each, attacks(each.code), small(each.code), expected, afresh, most_tries)
    return Result(each, [*readings, later(served)])


def _run_on_client(world: World, each: Routed, most_tries: int) -> Result:
    """The same for a client, and whether it has kept what it must keep."""
    client = client_of(world)
    found = attacks_on_clients.attacks(each.code)
    expected = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    readings = _readings(client, each, found, unknown, expected, client.restart, most_tries)
    readings += [later(client), kept(client.lost())]
    if readings[-1].faults:
        client.restart()
    return Result(each, readings)


def _readings(
    served: Measured,
    each: Routed,
    found: list[Attack],
    last: Callable[[], bytes],
    expected: int,
    afresh: Callable[[], None],
    most_tries: int,
) -> list[Reading]:
    known = KNOWN.get(str(each), frozenset())
    readings = []
    for one in found:
        tries = 1 if one.name in known else most_tries
        reading = attack(served, one, last, expected, tries=tries, afresh=afresh)
        readings.append(reading)
        if reading.is_end or reading.left > SLACK or any(fault.startswith("afterwards") for fault in reading.faults):
            afresh()
    return readings


def prepare(world: World) -> None:
    """Make what small requests are about, so that each has something to find."""
    with Peer(world.broker.address) as peer:
        for frame in (
            request(RequestCode.UPDATE_AND_CREATE_TOPIC, small_fields(RequestCode.UPDATE_AND_CREATE_TOPIC)),
            request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, dump({"groupName": "AttackedGroup"})),
            small(RequestCode.HEART_BEAT)(),
            small(RequestCode.SEND_MESSAGE)(),
        ):
            answer = peer.ask(frame)
            assert answer.code == ResponseCode.SUCCESS, (ATTACKED, answer)
        # What came before it may still be on its way into the queues.
        assert wait_until(lambda: peer.ask(small(RequestCode.PULL_MESSAGE)()).code == ResponseCode.SUCCESS, 30)
    with Peer(world.namesrv.address) as peer:
        for code in (RequestCode.PUT_KV_CONFIG, RequestCode.REGISTER_BROKER):
            answer = peer.ask(small(code)())
            assert answer.code == ResponseCode.SUCCESS, answer
