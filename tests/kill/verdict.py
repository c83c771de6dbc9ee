"""The verdict on a kill loop: what producers, consumers and the store itself say, before the checker of all tests."""

from __future__ import annotations

from dataclasses import dataclass

from rocketpy.errors import MessageDecodeError, StoreCorruptError
from rocketpy.wire.lenient_json import parse_json
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.message_id import decode_offset_message_id
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from tests import checker
from tests.checker import Line, Observation, Outcome, Seen, Violation, check, check_enough
from tests.kill import deliveries, store_check, transactions
from tests.kill.campaign import Outcome as RunOutcome
from tests.kill.content import BROKER, GROUPS, QUEUES, TOPIC, body_of, is_whole, name_of, tag_of
from tests.kill.history import History, Send
from tests.kill.servers import Servers


@dataclass(frozen=True)
class Verdict:
    """What was promised and not kept."""

    violations: list[Violation]
    stuck: list[str]
    log_bytes: int
    files: int

    def of(self, *invariants: str) -> int:
        """How many violations of some of the invariants there are."""
        return sum(each.invariant in invariants for each in self.violations)


def judge(servers: Servers, outcome: RunOutcome) -> Verdict:
    """Everything that can be said after a run whose processes have ended."""
    history = outcome.history
    wrong = [*outcome.problems, *_timed(outcome.timed), *store_check.problems(servers, "in the end", killed=False)]
    stored, log_bytes = _stored(servers, wrong)
    observations = [*_consumers(history), stored]
    sends = _sends(history)
    found = check(checker.History(sends, observations, once=False))
    found += [*deliveries.judge(history, sends, stored.committed), *check_enough(sends)]
    found += transactions.judge(servers, history)
    files = len(list(servers.store.glob("commitlog/*")))
    return Verdict(found, outcome.stuck, log_bytes, files)


def _timed(counts: tuple[int, ...]) -> list[str]:
    """What is wrong with timer messages: none is early, lost, or delivered though the broker had taken it back."""
    if not counts:
        return []
    kinds = ("early", "lost", "delivered though they were recalled")
    return [f"{count} timer messages are {kind}" for count, kind in zip(counts[1:4], kinds, strict=True) if count]


def _sends(history: History) -> list[checker.Send]:
    return [send_of(each) for each in sorted(history.sends, key=lambda each: each.began)]


def send_of(sent: Send) -> checker.Send:
    """A send for the checker."""
    name, stored = sent.name, sent.kind == "ok"
    return checker.Send(
        id=name,
        topic=TOPIC,
        body=body_of(name),
        outcome=Outcome(sent.kind),
        tags=tag_of(name),
        keys=name,
        properties={"copy": name},
        place=(sent.queue_id, sent.offset) if stored else None,
        broker=BROKER,
        position=decode_offset_message_id(sent.offset_message_id)[2] if stored else None,
        producer=name.rpartition("-")[0],
        began=sent.began / 1000,
        ended=sent.ended / 1000,
    )


def _consumers(history: History) -> list[Observation]:
    """What each life of a consumer got, in its order."""
    found: dict[str, Observation] = {}
    for each in history.deliveries:
        name = f"{each.consumer} of {each.group}"
        seen = found.setdefault(name, Observation(name=name, complete=False)).seen
        seen.append(_seen(each.name, each.queue_id, each.offset, whole=each.whole))
    return list(found.values())


def _seen(name: str, queue_id: int, offset: int, position: int | None = None, *, whole: bool) -> Seen:
    """A message, whose parts were compared with what its id says where it was read."""
    body = body_of(name) if whole else b"not what was sent"
    properties = {"copy": name}
    return Seen(
        id=name,
        topic=TOPIC,
        broker=BROKER,
        queue_id=queue_id,
        offset=offset,
        body=body,
        tags=tag_of(name),
        keys=name,
        properties=properties,
        position=position,
    )


def _stored(servers: Servers, problems: list[str]) -> tuple[Observation, int]:
    """All that the store holds, read by itself after the broker has stopped."""
    store = MessageStore(RealStorage(servers.store), servers.store_settings())
    store.load()
    try:
        seen = [each for queue_id in range(QUEUES) for each in _queue(store, queue_id)]
        bounds = {
            (TOPIC, BROKER, n): (store.reads.min_offset(TOPIC, n), store.reads.max_offset(TOPIC, n))
            for n in range(QUEUES)
        }
        observed = Observation(
            name="the store", seen=seen, bounds=bounds, committed=_committed(servers), problems=problems
        )
        return observed, store.written_position
    finally:
        store.close()


def _committed(servers: Servers) -> dict[tuple[str, Line], int]:
    """How far the groups are, as the broker has written it down."""
    table = parse_json((servers.store / "config" / "consumerOffset.json").read_bytes())["offsetTable"]
    return {
        (group, (TOPIC, BROKER, int(queue_id))): offset
        for group in GROUPS
        for queue_id, offset in table.get(f"{TOPIC}@{group}", {}).items()
    }


def _queue(store: MessageStore, queue_id: int) -> list[Seen]:
    found: list[Seen] = []
    offset = store.reads.min_offset(TOPIC, queue_id)
    while offset < store.reads.max_offset(TOPIC, queue_id):
        try:
            result = store.reads.get(TOPIC, queue_id, offset, 32)
            messages = decode_messages(result.records)
        except (StoreCorruptError, MessageDecodeError):
            return found  # the checker says that the rest is missing
        for each in messages:
            place = each.queue_offset, each.commit_log_offset
            found.append(_seen(name_of(each.body), queue_id, *place, whole=is_whole(each)))
        if result.next_begin_offset <= offset:
            return found
        offset = result.next_begin_offset
    return found
