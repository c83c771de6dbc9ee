"""I17 of a kill loop: what its producers of transactions wanted is in the topic, and what they did not want is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.names import TRANSACTION_DISCARD_TOPIC
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from tests.checker import Violation
from tests.kill.content import TRANSACTED, State, is_whole, name_of, verdict_of
from tests.kill.history import History
from tests.kill.servers import Servers

__all__ = ["broken", "judge"]

LEAST_TAKEN = 20


def judge(servers: Servers, history: History) -> list[Violation]:
    """The violations of every transaction, by the store after the broker has stopped."""
    store = MessageStore(RealStorage(servers.store), servers.store_settings())
    store.load()
    try:
        damaged: list[str] = []
        delivered = Counter(_names(store, TRANSACTED, damaged))
        aside = Counter(_names(store, TRANSACTION_DISCARD_TOPIC, damaged))
    finally:
        store.close()
    found = list(broken(history.transactions, delivered, aside))
    found += [Violation("I17", f"{name} is not what was sent") for name in damaged]
    taken = sum(kind == "taken" for kind in history.transactions.values())
    if taken < LEAST_TAKEN:
        found.append(Violation("I24", f"only {taken} half messages were taken: the run says nothing"))
    if not history.asked:
        found.append(Violation("I24", "no producer was asked about a transaction: the run says nothing"))
    return found


def broken(known: Mapping[str, str], delivered: Mapping[str, int], aside: Mapping[str, int]) -> Iterator[Violation]:
    """The promises that were not kept.

    Args:
        known: What producers said of each half message.
        delivered: How often each is in the topic.
        aside: What was set aside though its producers could say how it ends.
    """
    for name, kind in known.items():
        wanted = verdict_of(name)[1] is State.COMMIT
        if kind == "taken" and wanted and not delivered.get(name):
            yield Violation("I17", f"{name} was committed, and is not there")
        if delivered.get(name) and not wanted:
            yield Violation("I17", f"{name} was rolled back, and is there")
        if delivered.get(name) and kind == "unsent":
            yield Violation("I17", f"{name} never left its producer, and is there")
    for name in delivered:
        if name not in known:
            yield Violation("I17", f"{name} was never sent, and is there")
    for name in aside:
        yield Violation("I17", f"{name} was set aside, though its producers know how it ends")


def _names(store: MessageStore, topic: str, damaged: list[str]) -> Iterator[str]:
    """The ids of the messages of a topic; what is not whole is told apart."""
    for queue_id in store.reads.queue_ids(topic):
        offset = store.reads.min_offset(topic, queue_id)
        while offset < store.reads.max_offset(topic, queue_id):
            result = store.reads.get(topic, queue_id, offset, 32)
            for each in decode_messages(result.records):
                yield name_of(each.body)
                if not is_whole(each):
                    damaged.append(name_of(each.body))
            if result.next_begin_offset <= offset:
                break
            offset = result.next_begin_offset
