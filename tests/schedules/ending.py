"""The state at the end of a schedule: what brokers hold, which member has which queue, what was left open."""

from __future__ import annotations

from collections.abc import Collection

import attrs
import trio

from rocketpy.errors import RocketMQError
from rocketpy.remoting.memory import MemoryLink, MemoryNetwork
from rocketpy_broker_sim import LocalCluster
from tests.checker import Kind, Line, Observation
from tests.schedules.history import History
from tests.schedules.members import Member, seen
from tests.schedules.plan import TOPIC, Plan

__all__ = ["Left", "note_end"]


def note_end(history: History, plan: Plan, cluster: LocalCluster, members: list[Member]) -> None:
    """Record what brokers hold and which member has which queue."""
    lines = [(TOPIC, broker.config.broker_name, queue) for broker in cluster.brokers for queue in range(plan.queues)]
    stored = history.observed["the brokers"] = _stored(history, cluster, lines)
    sent = {send.id: send for send in history.sends}
    for group in plan.groups:
        made = history.groups[group.name]
        unwanted: dict[Line, set[int]] = {}
        for each in stored.seen:
            if each.id in sent and not group.filter.lets_through(sent[each.id]):
                unwanted.setdefault(each.line, set()).add(each.offset)
        made.unwanted = unwanted
        history.had["filtered by tags"] += bool(group.filter.tags and unwanted)
        history.had["filtered by SQL92"] += bool(group.filter.sql and unwanted)
        made.owners = {line: [] for line in lines}
        for member in members:
            if member.plan.name == group.name and not member.dead:
                for queue in member.consumer.assignment:
                    line = queue.topic, queue.broker_name, queue.queue_id
                    if queue.topic == TOPIC:
                        made.owners.setdefault(line, []).append(member.name)
        made.dead_letters = _dead_letters(cluster, group.name)


def _stored(history: History, cluster: LocalCluster, lines: list[Line]) -> Observation:
    brokers = {broker.config.broker_name: broker for broker in cluster.brokers}
    committed = {
        (name, line): offset
        for name, group in history.groups.items()
        for line in lines
        if group.kind is not Kind.BROADCAST and (offset := brokers[line[1]].offsets.query(name, TOPIC, line[2])) >= 0
    }
    return Observation(
        name="the brokers",
        seen=[seen(message) for message in cluster.messages(TOPIC)],
        bounds={line: (0, brokers[line[1]].store.reads.max_offset(TOPIC, line[2])) for line in lines},
        committed=committed,
    )


def _dead_letters(cluster: LocalCluster, group: str) -> list[str]:
    try:
        return [str(message.body, "ascii") for message in cluster.dead_letters(group)]
    except RocketMQError:
        return []


@attrs.define
class Left:
    """Finds what was opened and not closed. Created before anything happens."""

    cluster: LocalCluster
    network: MemoryNetwork
    links: set[MemoryLink] = attrs.field(factory=set)
    tasks: int = 0

    def __attrs_post_init__(self) -> None:
        self.links, self.tasks = set(self.network.links()), trio.lowlevel.current_statistics().tasks_living

    def look(self, left_over: list[str], were_away: int, groups: Collection[str]) -> None:
        """Record what is left open after all clients have gone.

        A restarted broker has a new link to the name servers, but the same number of tasks.

        Args:
            left_over: gets what is left open.
            were_away: the number of brokers that were restarted.
            groups: those of which brokers should know no member any more.
        """
        more = [link for link in self.network.links() if link not in self.links]
        now = trio.lowlevel.current_statistics().tasks_living
        if len(more) > were_away or now > self.tasks:
            left_over.append(f"{len(more)} new links, {now} tasks where there were {self.tasks}")
        for broker in self.cluster.brokers if groups else ():
            clients = broker.clients
            known = {group.name for group in clients.consumers.groups()}.union(clients.producers.groups())
            members = sorted(known.intersection(groups))
            if members or len(clients.locks):
                name = broker.config.broker_name
                left_over.append(f"{name} has {len(clients.locks)} locks, and members of {members}")
