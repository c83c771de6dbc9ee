"""Passes what the groups of a kill loop got to the checker, with the faults that may have caused redeliveries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tests.checker import (
    Delivery,
    Fault,
    Group,
    Kind,
    Life,
    Line,
    Send,
    Violation,
    check_commits,
    check_copies,
    check_gaps,
    check_turns,
    check_unseen,
)
from tests.kill import history as kill
from tests.kill.consuming import PERSIST_INTERVAL
from tests.kill.content import BROADCAST, BROKER, GROUPS, MEMBERS, ORDERLY, TOPIC, role_of

CAUSE_WITHIN = 25.0
"""Seconds: five between two commits of a consumer, and one rebalance."""
FILE_WITHIN = PERSIST_INTERVAL + 2.0
"""Seconds after which what a member of a broadcast has dealt with is in its file: an interval, and the time that a
busy machine takes."""
NO_CAUSE = "no cause"

Place = tuple[str, int, int]


def judge(
    history: kill.History, sends: Sequence[Send], committed: Mapping[tuple[str, Line], int] | None = None
) -> list[Violation]:
    """I2 and I15, I10, I11, and for orderly groups I12 and I13.

    Args:
        history: What happened.
        sends: Its sends, for the checker.
        committed: The committed offsets of the groups in the end.
    """
    found: list[Violation] = []
    for name in GROUPS:
        group = group_of(history, name)
        found += [*check_unseen(group, sends), *check_gaps(group), *check_copies(group)]
        if name in ORDERLY:
            end = max((each.ended or each.began for each in group.deliveries), default=0.0)
            for (who, line), offset in (committed or {}).items():
                if who == name:
                    group.note_commit(end, line, offset)
            found += [*check_turns(group), *check_commits(group)]
    return found


def duplicates(history: kill.History) -> Counter[str]:
    """Deliveries of what the group had got before, by what made the group begin again."""
    return Counter(cause for _, cause in _repeated(history))


def group_of(history: kill.History, name: str) -> Group:
    """What a group did, in seconds.

    Only listeners of orderly groups report when they finish; others count as finished as soon as they are called. A
    restarted member of a broadcast continues with the file of the one before, so it has the same name, that of its
    role.
    """
    made = Group(name=name, kind=Kind[GROUPS[name].name])
    for number, each in enumerate(history.deliveries):
        if each.group == name:
            ended = history.ended.get(number) if name in ORDERLY else each.at
            made.deliveries.append(
                Delivery(
                    consumer=role_of(each.consumer) if name in BROADCAST else each.consumer,
                    id=each.name,
                    queue=(TOPIC, BROKER, each.queue_id),
                    offset=each.offset,
                    began=each.at / 1000,
                    ended=None if ended is None else ended / 1000,
                    succeeded=ended is not None,
                )
            )
    if name in BROADCAST:
        made.lives = [Life(name=role) for role, groups in MEMBERS.items() if name in groups]
        made.faults = _lost_from_file(history)
    else:
        made.faults = [_fault(each) for each in history.faults if _concerns(each, name)]
    return made


def _fault(fault: kill.Fault) -> Fault:
    broker = BROKER if (fault.kind, fault.target) == ("kill", "broker") else ""
    return Fault(at=fault.at / 1000, what=fault.kind, settles=CAUSE_WITHIN, broker=broker)


def _lost_from_file(history: kill.History) -> list[Fault]:
    """Kills of members of broadcasts: what they dealt with since they last wrote their file comes again.

    If a member had been paused until shortly before its kill, it may have written nothing since the pause began.
    """
    kills = [each for each in history.faults if each.kind == "kill" and each.target != "broker"]
    return [
        Fault(at=each.at / 1000, settles=0.0, within=FILE_WITHIN + (each.at - _last_work(history, each)) / 1000)
        for each in kills
        if any(_concerns(each, group) for group in BROADCAST)
    ]


def _last_work(history: kill.History, fault: kill.Fault) -> float:
    """When the killed member had last been able to run long enough to write its file."""
    mine = [each for each in history.faults if each.target == fault.target and each.at <= fault.at]
    gone_on = [each.at for each in mine if each.kind == "go on" and fault.at - each.at <= FILE_WITHIN * 1000]
    paused = [each.at for each in mine if each.kind == "pause"]
    return max(paused) if gone_on else fault.at


def _concerns(fault: kill.Fault, group: str) -> bool:
    """Whether a fault may make the group rebalance, or lose commits."""
    if fault.target == "broker":
        return group not in BROADCAST  # its members keep their own offsets
    return group in MEMBERS.get(role_of(fault.target), ())


# --- for the table ------------------------------------------------------------------------------------------


def _repeated(history: kill.History) -> Iterator[tuple[kill.Delivery, str]]:
    """Deliveries of what the group had got before, each with the last fault that may explain it."""
    first: dict[Place, float] = {}
    faults = sorted(history.faults, key=lambda each: each.at)
    for each in sorted(history.deliveries, key=lambda each: each.at):
        before = first.setdefault((each.group, each.queue_id, each.offset), each.at)
        if before != each.at:
            causes = [
                fault
                for fault in faults
                if before - CAUSE_WITHIN * 1000 <= fault.at <= each.at and _concerns(fault, each.group)
            ]
            yield each, f"{causes[-1].kind} of {_who(causes[-1])}" if causes else NO_CAUSE


def _who(fault: kill.Fault) -> str:
    return fault.target.split("-")[0]
