"""What brokers acknowledged, compared with what observers saw: I1, I3 to I7, I9, I21."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.checker.commits import check_ends
from tests.checker.groups import NEVER
from tests.checker.history import History, Line, Observation, Outcome, Seen, Send, Violation
from tests.checker.sends import check_failed, check_rising

__all__ = ["check", "check_same_files"]


def check(history: History) -> list[Violation]:
    """Every violation that the sends and observations show."""
    sends = {send.id: send for send in history.sends}
    if len(sends) != len(history.sends):
        raise ValueError("two sends of a history have the same id")
    found: list[Violation] = []
    for observation in history.observations:
        found += _genuine(observation, sends)
        found += _places(observation, sends, history.once)
        found += _dense(observation)
        found += check_ends(observation)
        found += [Violation("I7", f"{observation.name}: {problem}") for problem in observation.problems]
        if observation.complete:
            found += _kept(observation, history)
        if history.once:
            found += _once(observation, sends)
    found += check_failed(history)
    found += _one_name(history)
    found += _nothing_comes_back(history)
    found += check_rising(history.sends)
    if history.durable:
        found += _durable_before_visible(history, sends)
    return found


def check_same_files(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[Violation]:
    """I21: a second recovery changes nothing."""
    return [
        Violation("I21", f"{path} differs after a second recovery")
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]


def _kept(observation: Observation, history: History) -> Iterator[Violation]:
    """I1: acknowledged messages are stored."""
    there = {each.id for each in observation.seen}
    known = history.sends if observation.sends_before is None else history.sends[: observation.sends_before]
    for send in known:
        if (send.ended if send.stored_by is None else send.stored_by) >= observation.at < NEVER:
            continue
        if send.outcome is Outcome.OK and not send.optional and send.id not in there:
            at = "" if send.place is None else f", acknowledged at queue {send.place[0]} offset {send.place[1]}"
            yield Violation("I1", f"{observation.name}: {send.id} of {send.topic} is lost{at}")


def _genuine(observation: Observation, sends: Mapping[str, Send]) -> Iterator[Violation]:
    """I5: every observed message was sent, with the same content."""
    for each in observation.seen:
        send = sends.get(each.id)
        where = f"{observation.name}: {each.topic} {each.queue_id} at {each.offset}"
        if send is None:
            yield Violation("I5", f"{where} has a message that was never sent: {each.body[:60]!r}")
            continue
        for name in ("topic", "body", "tags", "keys", "properties"):
            sent, got = getattr(send, name), getattr(each, name)
            if sent != got:
                yield Violation("I5", f"{where} has {send.id} with another {name}: {got!r:.80}, not {sent!r:.80}")


def _places(observation: Observation, sends: Mapping[str, Send], once: bool) -> Iterator[Violation]:
    """I6: the message is at the acknowledged place, and nowhere else if no producer retries."""
    seen: dict[str, list[Seen]] = {}
    for each in observation.seen:
        seen.setdefault(each.id, []).append(each)
    for id_, found in seen.items():
        send = sends.get(id_)
        if send is None or send.outcome is not Outcome.OK or not (once or observation.complete):
            continue
        if send.ended >= observation.at:
            continue
        where = f"{observation.name}: {id_}"
        places = {(each.broker, each.queue_id, each.offset) for each in found}
        if send.place is not None and ((send.broker, *send.place) not in places or (once and len(places) > 1)):
            yield Violation("I6", f"{where} was acknowledged at {send.broker} {send.place}, seen at {sorted(places)}")
        positions = {each.position for each in found}
        if send.position is not None and None not in positions and send.position not in positions:
            yield Violation("I6", f"{where} was acknowledged at position {send.position}, and is at {positions}")


def _dense(observation: Observation) -> Iterator[Violation]:
    """I7: a queue holds every offset between its ends exactly once."""
    if not observation.complete:
        return
    offsets: dict[Line, list[int]] = {line: [] for line in observation.bounds}
    for each in observation.seen:
        offsets.setdefault(each.line, []).append(each.offset)
    for line, there in offsets.items():
        first, end = observation.bounds.get(line, (min(there, default=0), max(there, default=-1) + 1))
        if there != list(range(first, end)):
            yield Violation("I7", f"{observation.name}: {line} from {first} to {end} holds {_short(there)}")


def _once(observation: Observation, sends: Mapping[str, Send]) -> Iterator[Violation]:
    """I5: nothing is stored twice. Only for complete observations, because consumers may get a message twice."""
    places: dict[str, tuple[str, int, int]] = {}
    for each in observation.seen if observation.complete else ():
        if each.id in sends and sends[each.id].repeatable:
            continue
        place = each.broker, each.queue_id, each.offset
        before = places.setdefault(each.id, place)
        if before != place:
            yield Violation("I5", f"{observation.name}: {each.id} is at {before} and {place}")


def _one_name(history: History) -> Iterator[Violation]:
    """I4: a place holds the same message for every observer and at all times."""
    names: dict[tuple[Line, int], str] = {}
    optional = {send.id for send in history.sends if send.optional}
    for send in history.sends:
        if not history.durable or send.outcome is not Outcome.OK or send.optional:
            continue
        if send.line is not None and send.place is not None:
            before = names.setdefault((send.line, send.place[1]), send.id)
            if before != send.id:
                yield Violation("I4", f"{send.line} {send.place} was acknowledged for both {before} and {send.id}")
    for observation in history.observations:
        for each in observation.seen:
            if each.id in optional:
                continue
            before = names.setdefault((each.line, each.offset), each.id)
            if before != each.id:
                place = f"{each.topic} {each.queue_id} at {each.offset}"
                yield Violation("I4", f"{observation.name}: {place} is {each.id}, and was {before}")


def _nothing_comes_back(history: History) -> Iterator[Violation]:
    """I5: an earlier send that is missing in a complete observation never appears later."""
    gone: set[str] = set()
    for observation in history.observations:
        there = {each.id for each in observation.seen}
        for lost in sorted(gone & there):
            yield Violation("I5", f"{observation.name}: {lost} has come back to life")
        if observation.complete and observation.sends_before is not None:
            gone |= {send.id for send in history.sends[: observation.sends_before]} - there


def _durable_before_visible(history: History, sends: Mapping[str, Send]) -> Iterator[Violation]:
    """I9: an observed message is in every later complete observation."""
    visible: dict[str, str] = {}
    for observation in history.observations:
        there = {each.id for each in observation.seen}
        if observation.complete:
            for lost in sorted(visible.keys() - there):
                yield Violation("I9", f"{observation.name}: {lost} is gone, which {visible[lost]} had seen")
        for each in there:
            send = sends.get(each)
            if send is not None and not send.optional:
                visible.setdefault(each, observation.name)


def _short(offsets: list[int]) -> str:
    text = ",".join(map(str, offsets))
    return text if len(text) < 80 else f"{text[:40]}...{text[-30:]}"
