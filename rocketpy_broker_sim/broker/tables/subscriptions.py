"""The consumer groups of one broker and their settings: subscriptionGroup.json.

Plays the part of SubscriptionGroupManager.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping
from itertools import islice
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rocketpy.errors import BrokerError
from rocketpy.logs import get_logger
from rocketpy.wire.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig, SubscriptionGroupWrapper
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.names import is_system_group, is_valid_group
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.broker.tables.gathered import Gathered
from rocketpy_broker_sim.broker.tables.persist import (
    FILE_LIMITS,
    Entries,
    StoredTable,
    Written,
    pretty_pieces,
    pretty_text,
)
from rocketpy_broker_sim.serving.memory import TableRoom
from rocketpy_broker_sim.serving.slices import PAUSE

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.config import BrokerConfig

__all__ = ["DEFAULT_GROUPS", "SubscriptionGroupTable", "size_of_forbidden", "size_of_group"]

log = get_logger(__name__)

DEFAULT_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)
"""Groups that every broker has from its first moment."""
MOST_LOGGED = 20
"""Groups of one change that the log tells one by one."""
_GROUPS_A_STEP = 32
_READ_FORBIDDEN = 1 << 2
_USUAL_POLICY = GroupRetryPolicy()
_NO_ATTRIBUTES: dict[str, str] = {}
_MOST_SHAPES = 1000
"""Texts that groups have in common which are kept to be found again."""
_BYTES_A_GROUP = 352
_BYTES_OF_OWN_TEXT = 1024
"""What a group takes besides when it shares its text in the file with no other."""
_BYTES_A_SUBSCRIPTION = 320
_BYTES_A_DELAY = 48
_BYTES_AN_ATTRIBUTE = 256
_BYTES_OF_FORBIDDING = 320
_BYTES_A_FORBIDDEN_TOPIC = 128
_plain_settings = attrgetter(
    "consume_enable",
    "consume_from_min_enable",
    "consume_broadcast_enable",
    "consume_message_orderly",
    "retry_queue_nums",
    "retry_max_times",
    "broker_id",
    "which_broker_when_consume_slowly",
    "notify_consumer_ids_changed_enable",
    "group_sys_flag",
    "consume_timeout_minute",
)
_USUAL_SETTINGS = _plain_settings(SubscriptionGroupConfig(group_name=""))


def size_of_group(group: SubscriptionGroupConfig) -> int:
    """Bytes that a group is reckoned to take in the table, with its text as it stands in the file."""
    size = _BYTES_A_GROUP + len(group.group_name)
    policy, own = group.group_retry_policy, group.subscription_data_set is not None
    if policy is not _USUAL_POLICY and policy != _USUAL_POLICY:
        own = True
        for delay in policy.customized_retry_policy.next if policy.customized_retry_policy else ():
            size += _BYTES_A_DELAY + delay.bit_length() // 2
    for each in group.subscription_data_set or ():
        texts = len(each.topic or "") + len(each.expression_type or "") + len(each.expression or "")
        size += _BYTES_A_SUBSCRIPTION + 2 * texts
    for name, value in group.attributes.items():
        own = True
        size += _BYTES_AN_ATTRIBUTE + 2 * (len(name) + len(value))
    if own or _plain_settings(group) != _USUAL_SETTINGS:
        size += _BYTES_OF_OWN_TEXT
    return size


def size_of_forbidden(group: str, topics: Collection[str], *, is_all: bool = True) -> int:
    """Bytes that topics which a group may not read are reckoned to take.

    Args:
        group: its name.
        topics: some, or all of them.
        is_all: whether there are no others.
    """
    size = _BYTES_OF_FORBIDDING + len(group) if topics and is_all else 0
    return size + sum(_BYTES_A_FORBIDDEN_TOPIC + len(topic) for topic in topics)


class SubscriptionGroupTable(StoredTable):
    """The groups by name, and the topics that a group may not read.

    Args:
        config: of the broker.
        storage: where the file is.
        room: what they take counts there.

    Attributes:
        data_version: Rises with every change.
    """

    file_name = "subscriptionGroup.json"

    def __init__(self, config: BrokerConfig, storage: Storage, room: TableRoom | None = None) -> None:
        super().__init__(storage)
        self._config = config
        self._groups = {name: SubscriptionGroupConfig(group_name=name) for name in DEFAULT_GROUPS}
        self._forbidden: dict[str, dict[str, int]] = {}
        self._texts: dict[str, tuple[str, str | None]] = {}
        self._same: dict[tuple[str, str | None], tuple[str, str | None]] = {}
        self.data_version = DataVersion()
        self._room = room or TableRoom()
        self._room.set(self._size())

    # --- asking ----------------------------------------------------------------------------------------

    def get(self, name: str) -> SubscriptionGroupConfig | None:
        """The group, None when it is not known."""
        return self._groups.get(name)

    def find(self, name: str) -> SubscriptionGroupConfig | None:
        """The group, made when it is new and the settings allow that; None otherwise.

        Raises:
            BrokerError: the table is full.
        """
        existing = self._groups.get(name)
        if existing is not None:
            return existing
        if not is_valid_group(name) or not self._may_create(name):
            return None
        made = SubscriptionGroupConfig(group_name=name)
        self.put(made)
        return made

    def _may_create(self, name: str) -> bool:
        if self._config.auto_create_subscription_group:
            return True
        return self._config.enable_create_sys_group and is_system_group(name)

    def all(self) -> Mapping[str, SubscriptionGroupConfig]:
        """All groups by name; a view, not to be kept."""
        return MappingProxyType(self._groups)

    def __contains__(self, name: str) -> bool:
        """Whether there is such a group."""
        return name in self._groups

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self._groups)

    # --- changing --------------------------------------------------------------------------------------

    def put(self, group: SubscriptionGroupConfig) -> None:
        """Make or replace a group.

        Raises:
            BrokerError: the name is not allowed, or the table is full.
        """
        self.put_all([group])

    def put_all(self, groups: Iterable[SubscriptionGroupConfig]) -> None:
        """Make or replace several groups, all or none.

        Raises:
            BrokerError: a name is not allowed, or the table is full.
        """
        run_steps(self.put_steps(groups))

    def put_steps(self, groups: Iterable[SubscriptionGroupConfig]) -> Generator[Any, None, None]:
        """`put_all`, in steps: the groups are checked a few at a time, and all of them made in the last one.

        Raises:
            BrokerError: a name is not allowed, or the table is full.
        """
        gathered, version = Gathered(self._groups, size_of_group), self.data_version
        for count, group in enumerate(groups, 1):
            if not is_valid_group(group.group_name):
                raise BrokerError.for_code(ResponseCode.INVALID_PARAMETER, "the group name is not allowed")
            gathered.add(group.group_name, _sharing(group))
            if count % _GROUPS_A_STEP == 0:
                yield
        yield PAUSE  # before all of them are made
        found = gathered.entries
        self._take_room(*gathered.growth(is_disturbed=self.data_version is not version))
        for name in found.keys() & self._texts.keys():
            del self._texts[name]
        # A line for each would take a request with thousands of them most of its time.
        for name in islice(found, MOST_LOGGED):
            log.info("%s group %s", "update" if name in self._groups else "create", name)
        if len(found) > MOST_LOGGED:
            log.info("create or update %d more groups", len(found) - MOST_LOGGED)
        self._groups.update(found)
        self._next_version()

    def _take_room(self, added: int, size: int) -> None:
        """Make room for more groups and their bytes.

        Raises:
            BrokerError: the table is full.
        """
        held, most = len(self._groups), self._config.max_groups
        if added and held + added > most:
            remark = (
                f"the broker holds {held} groups, its own included, and may hold {most}; {added} more cannot be added: "
                "delete some, or raise maxGroups"
            )
            raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)
        self._room.take(size)

    def delete(self, name: str) -> bool:
        """Forget a group and what it was forbidden; whether it was there."""
        forbidden = self._forbidden.pop(name, None)
        existing = self._groups.pop(name, None)
        self._texts.pop(name, None)
        if existing is None and forbidden is None:
            return False
        size = 0 if existing is None else size_of_group(existing)
        self._room.note(-size - size_of_forbidden(name, forbidden or ()))
        log.info("delete group %.256r", name)
        self._next_version()
        return existing is not None

    def _next_version(self) -> None:
        self.data_version = self.data_version.next_version()
        self.mark_changed()

    # --- what a group may not read ---------------------------------------------------------------------

    def is_readable(self, group: str, topic: str) -> bool:
        """Whether the group may read the topic."""
        return not self._forbidden.get(group, {}).get(topic, 0) & _READ_FORBIDDEN

    def set_readable(self, group: str, topic: str, readable: bool) -> None:
        """Allow or forbid a group to read a topic.

        Unlike Apache's, allowing one topic leaves alone what the group is forbidden on others.

        Raises:
            BrokerError: the table is full.
        """
        if readable == self.is_readable(group, topic):
            return
        if group not in self._forbidden and len(self._forbidden) >= self._config.max_groups:
            remark = (
                f"{len(self._forbidden)} groups are forbidden to read a topic, more are not allowed: raise maxGroups"
            )
            raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)
        known = self._forbidden.get(group, {})
        if topic not in known and len(known) >= self._config.max_topics:
            remark = f"the group is forbidden to read {len(known)} topics, more are not allowed: raise maxTopics"
            raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)
        bits = known.get(topic, 0) ^ _READ_FORBIDDEN
        if topic not in known:
            self._room.take(size_of_forbidden(group, [topic], is_all=not known))
        self._forbidden.setdefault(group, known)[topic] = bits
        if bits <= 0:
            self._allow(group, topic)
        self._next_version()

    def _allow(self, group: str, topic: str) -> None:
        bits = self._forbidden[group]
        del bits[topic]
        if not bits:
            del self._forbidden[group]
        self._room.note(-size_of_forbidden(group, [topic], is_all=not bits))

    def forbidden(self) -> Mapping[str, Mapping[str, int]]:
        """Bits by group and topic; a view, not to be kept."""
        return MappingProxyType(self._forbidden)

    # --- the file --------------------------------------------------------------------------------------

    def wrapper(self) -> SubscriptionGroupWrapper:
        """The whole table as it travels and as it stands in the file."""
        return SubscriptionGroupWrapper(
            subscription_group_table=self._groups, forbidden_table=self._forbidden, data_version=self.data_version
        )

    def encode_steps(self) -> Generator[None, None, list[bytes]]:
        """The content of subscriptionGroup.json."""
        groups = list(self._groups.values())
        forbidden = list(self._forbidden.items())
        return pretty_pieces(
            {
                "dataVersion": self.data_version.to_json(),
                "forbiddenTable": Entries((group, dict(bits)) for group, bits in forbidden),
                "subscriptionGroupTable": Entries((group.group_name, self._text(group)) for group in groups),
            }
        )

    def _text(self, group: SubscriptionGroupConfig) -> Written:
        """How a group stands in the file.

        Most groups differ in nothing but the name, and the whole file is written when one of them changes: the text
        before and behind the name is kept, once for all that have the same.
        """
        name = group.group_name
        is_current = self._groups.get(name) is group  # it may have been changed since the writing began
        parts = self._texts.get(name) if is_current else None
        if parts is None:
            before, mark, behind = pretty_text(group.to_json()).partition(f'"groupName":"{name}"')
            made = before, behind if mark else None
            parts = self._same.setdefault(made, made)
            if is_current:
                self._texts[name] = parts
            if len(self._same) > _MOST_SHAPES:
                self._same.clear()
        return Written(parts[0] if parts[1] is None else f'{parts[0]}"groupName":"{name}"{parts[1]}')

    def decode(self, data: bytes) -> None:
        """Take over subscriptionGroup.json; groups made at boot that it lacks stay."""
        wrapper = SubscriptionGroupWrapper.decode(data, limits=FILE_LIMITS)
        self._groups.update(wrapper.subscription_group_table)
        self._texts.clear()
        self._forbidden.update({group: bits for group, bits in wrapper.forbidden_table.items() if bits})
        self.data_version = wrapper.data_version
        self._room.set(self._size())

    def _size(self) -> int:
        """Bytes that the whole table is reckoned to take."""
        forbidden = sum(size_of_forbidden(group, bits) for group, bits in self._forbidden.items())
        return forbidden + sum(map(size_of_group, self._groups.values()))


def _sharing(group: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
    """A group that has with others what most groups have in common; nothing of it is ever changed in its place."""
    if group.group_retry_policy == _USUAL_POLICY:
        group.group_retry_policy = _USUAL_POLICY
    if not group.attributes:
        group.attributes = _NO_ATTRIBUTES
    return group
