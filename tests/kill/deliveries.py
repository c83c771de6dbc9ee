"""What the groups of a kill loop got, judged: everything acknowledged, in order, and nothing twice without a cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tests import checker
from tests.checker import Cause, Consumption, Violation, check_copies, check_order
from tests.kill.consuming import PERSIST_INTERVAL
from tests.kill.content import BROADCAST, GROUPS, MEMBERS, ORDERLY, TOPIC, role_of
from tests.kill.history import Delivery, Fault, History

CAUSE_WITHIN = 25_000.0
"""Milliseconds: the five seconds between two commits of a consumer, and a round of sharing out the queues."""
FILE_WITHIN = PERSIST_INTERVAL + 2.0
"""Seconds after which what a member of a broadcast has dealt with is in its file: an interval, and the time that a
busy machine takes."""
NO_CAUSE = "no cause"
BROKER = "broker-a"

Place = tuple[str, int, int]


def judge(history: History, committed: Mapping[tuple[str, str, int], int] | None = None) -> list[Violation]:
    """I2 and I15, I10, I11, and I12 and I13 of groups in order.

    Args:
        history: What happened.
        committed: What the groups had committed in the end, by group, topic and queue id.
    """
    found = [*_unseen(history), *_out_of_order(history), *_without_cause(history)]
    for group in ORDERLY:
        made = consumption(history, group)
        end = max((each.ended or each.began for each in made.deliveries), default=0.0)
        made.commits = [
            (end, (topic, BROKER, queue_id), offset)
            for (who, topic, queue_id), offset in (committed or {}).items()
            if who == group
        ]
        found += check_order(made)
    for group in BROADCAST:
        found += check_copies(consumption(history, group).deliveries, _lost_from_file(history))
    return found


def duplicates(history: History) -> Counter[str]:
    """Deliveries of what the group had got before, by what made the group begin again."""
    return Counter(cause for _, cause in _repeated(history))


def consumption(history: History, group: str) -> Consumption:
    """What the checker of all tests is told of a group; its times are seconds.

    Only listeners of groups in order tell when they have done; others have done as soon as they are called.
    """
    made = Consumption()
    for number, each in enumerate(history.deliveries):
        if each.group == group:
            ended = history.ended.get(number) if group in ORDERLY else each.at
            made.deliveries.append(
                checker.Delivery(
                    consumer=each.consumer,
                    queue=(TOPIC, BROKER, each.queue_id),
                    offset=each.offset,
                    began=each.at / 1000,
                    ended=None if ended is None else ended / 1000,
                    succeeded=ended is not None,
                )
            )
    made.forgotten = [(each.at / 1000, BROKER) for each in history.faults if each[::2] == ("kill", "broker")]
    return made


def _in_order(history: History) -> list[Delivery]:
    return sorted(history.deliveries, key=lambda each: each.at)


def _place(delivery: Delivery) -> Place:
    return delivery.group, delivery.queue_id, delivery.offset


def _unseen(history: History) -> Iterator[Violation]:
    """I2, and I15 of a broadcast: what was acknowledged reaches every group."""
    got = {_place(each) for each in history.deliveries}
    for send in history.sends:
        for group in GROUPS if send.kind == "ok" else ():
            if (group, send.queue_id, send.offset) not in got:
                number = "I15" if group in BROADCAST else "I2"
                yield Violation(number, f"{group} never got {send.name}, queue {send.queue_id} offset {send.offset}")


def _out_of_order(history: History) -> Iterator[Violation]:
    """I10: what a group gets of a queue for the first time follows what it got before, without a gap."""
    following: dict[tuple[str, int], int] = {}
    for each in _in_order(history):
        queue = each.group, each.queue_id
        wanted = following.get(queue, 0)
        if each.offset > wanted:
            yield Violation("I10", f"{each.consumer} got queue {each.queue_id} at {each.offset}, not at {wanted}")
        following[queue] = max(wanted, each.offset + 1)


def _without_cause(history: History) -> Iterator[Violation]:
    """I11: nothing comes twice when nothing has happened; of broadcasts more is known."""
    for each, cause in _repeated(history):
        if cause == NO_CAUSE and each.group not in BROADCAST:
            yield Violation("I11", f"{each.consumer} of {each.group} got queue {each.queue_id} at {each.offset} again")


def _repeated(history: History) -> Iterator[tuple[Delivery, str]]:
    """Deliveries of what the group had got before, each with the last fault that may explain it."""
    first: dict[Place, float] = {}
    faults = sorted(history.faults, key=lambda each: each.at)
    for each in _in_order(history):
        before = first.setdefault(_place(each), each.at)
        if before != each.at:
            causes = [
                fault for fault in faults if before - CAUSE_WITHIN <= fault.at <= each.at and _concerns(fault, each)
            ]
            yield each, f"{causes[-1].kind} of {_who(causes[-1])}" if causes else NO_CAUSE


def _lost_from_file(history: History) -> list[Cause]:
    """Kills of members of broadcasts; before one that had been paused until then, nothing was written in the pause."""
    kills = [each for each in history.faults if each.kind == "kill" and each.target != "broker"]
    return [Cause(at=_last_work(history, each) / 1000, within=FILE_WITHIN) for each in kills if _has_broadcast(each)]


def _last_work(history: History, kill: Fault) -> float:
    """When who was killed had last been able to work for long enough to write its file."""
    mine = [each for each in history.faults if each.target == kill.target and each.at <= kill.at]
    gone_on = [each.at for each in mine if each.kind == "go on" and kill.at - each.at <= FILE_WITHIN * 1000]
    paused = [each.at for each in mine if each.kind == "pause"]
    return max(paused) if gone_on else kill.at


def _has_broadcast(fault: Fault) -> bool:
    return any(group in BROADCAST for group in MEMBERS.get(role_of(fault.target), ()))


def _concerns(fault: Fault, delivery: Delivery) -> bool:
    """Whether a fault may make the group share out its queues again, or forget how far it was."""
    if fault.target == "broker":
        return delivery.group not in BROADCAST  # its offsets are its own
    return delivery.group in MEMBERS.get(role_of(fault.target), ())


def _who(fault: Fault) -> str:
    return fault.target.split("-")[0]
