"""Requests of administrators about consumer groups: create, change, delete, list, forbid. Plays a part of
AdminBrokerProcessor.

An answer to a change is sent when the change is on the disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.logs import get_logger, quote
from rocketpy.wire.bodies.groups import (
    GroupForbidden,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
)
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.headers.admin import (
    DeleteSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupResponseHeader,
    GetSubscriptionGroupConfigRequestHeader,
    UpdateGroupForbiddenRequestHeader,
)
from rocketpy.wire.limits import REQUEST_LIMITS, SMALL_REQUEST_LIMITS
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.broker.processors.checks import check_group, check_queues, check_topic, invalid
from rocketpy_broker_sim.broker.processors.pages import copied, page
from rocketpy_broker_sim.broker.tables.attributes import GROUP_ATTRIBUTES, alter
from rocketpy_broker_sim.broker.tables.subscriptions import MOST_LOGGED
from rocketpy_broker_sim.serving.encoding import encode_steps
from rocketpy_broker_sim.serving.slices import MUST_END

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.admin_views import GroupAdminView
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["create_group", "create_groups", "delete_group", "forbid_group", "get_all_groups", "get_group"]

log = get_logger(__name__)

MOST_SETTINGS = 16 * 1024
"""Bytes of the settings of a group, as they travel. All groups are written whenever one of them changes."""
MOST_GROUPS = 20_000
"""Groups of one request. One of twenty bytes takes half a kilobyte here, and as much until the file is written."""
_LEAST_SUBSCRIPTION, _LEAST_DELAY = len('{"version":0},'), len("0,")


# --- create and change ---------------------------------------------------------------------------------


def create_group(broker: GroupAdminView, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
    """Create a group, or change it."""
    group = SubscriptionGroupConfig.decode(request.body, limits=SMALL_REQUEST_LIMITS)
    return run_steps(_put(broker, connection, request, [group] if _check(broker, group) else []))


def create_groups(broker: GroupAdminView, connection: Connection, request: RemotingCommand) -> Steps:
    """Create or change several groups, all or none. A sliced processor: they are checked in steps, then put at once."""
    wanted = (yield from SubscriptionGroupList.decode_steps(request.body, limits=REQUEST_LIMITS)).group_config_list
    if len(wanted) > MOST_GROUPS:
        raise invalid(f"the request has {len(wanted)} groups, {MOST_GROUPS} are allowed: send them in several requests")
    changed = []
    for group in wanted:
        if _check(broker, group):
            changed.append(group)
        yield
    return (yield from _put(broker, connection, request, changed))


def _check(broker: GroupAdminView, group: SubscriptionGroupConfig) -> bool:
    """Refuse a group that is not valid. Returns whether it differs from what exists.

    Raises:
        BrokerError: its name, its size, a number or an attribute is not acceptable.
    """
    check_group(group.group_name)
    check_queues(group.retry_queue_nums)
    known = broker.groups.get(group.group_name)
    group.attributes = alter(GROUP_ATTRIBUTES, known.attributes if known else None, group.attributes)
    # What has too many elements is refused before it is written out: that would be one long step.
    size = _least_size(group)
    if size <= MOST_SETTINGS:
        size = len(group.encode())
    if size > MOST_SETTINGS:
        raise invalid(f"the settings of {group.group_name} have {size} bytes or more, {MOST_SETTINGS} are allowed")
    return group != known


def _least_size(group: SubscriptionGroupConfig) -> int:
    """Bytes that the lists of a group have at least, however short their elements are."""
    customized = group.group_retry_policy.customized_retry_policy
    delays = len(customized.next) if customized else 0
    return _LEAST_SUBSCRIPTION * len(group.subscription_data_set or ()) + _LEAST_DELAY * delays


def _put(
    broker: GroupAdminView, connection: Connection, request: RemotingCommand, changed: list[SubscriptionGroupConfig]
) -> Steps:
    if changed:
        names = ", ".join(group.group_name for group in changed[:MOST_LOGGED])
        more = f" and {len(changed) - MOST_LOGGED} more" if len(changed) > MOST_LOGGED else ""
        log.info("%s changes groups: %s%s", quote(connection.address), names, more)
        yield from broker.groups.put_steps(changed)
    return broker.persistence.answer_after_save(connection, request, request.answer())


# --- delete --------------------------------------------------------------------------------------------


def delete_group(broker: GroupAdminView, connection: Connection, request: RemotingCommand) -> Steps:
    """Delete a group, and on request its offsets. It is no error if it does not exist. A sliced processor."""
    header = DeleteSubscriptionGroupRequestHeader.from_ext(request.ext_fields)
    name = check_group(header.group_name)
    log.info("%s deletes group %s", quote(connection.address), name)
    yield MUST_END
    if header.clean_offset or header.remove_offset:
        yield from broker.offsets.remove_group_steps(name)
    yield from broker.filters.remove_group_steps(name)
    yield from broker.flows.forget_group_steps(name)
    if header.clean_offset or header.remove_offset:
        broker.offsets.remove_group(name)  # what was committed meanwhile
    broker.groups.delete(name)
    return broker.persistence.answer_after_save(connection, request, request.answer())


# --- inspect -------------------------------------------------------------------------------------------


def get_all_groups(broker: GroupAdminView, connection: Connection, request: RemotingCommand) -> Steps:
    """All groups with their settings and forbidden topics, or one page of them if the request asks for a page.

    A sliced processor.
    """
    header = GetAllSubscriptionGroupRequestHeader.from_ext(request.ext_fields)
    groups, version, forbidden = copied(broker.groups.all()), broker.groups.data_version, broker.groups.forbidden()
    fields: dict[str, str] | None = None
    if (header.group_seq, header.data_version, header.max_group_num) != (None, None, None):
        fields = GetAllSubscriptionGroupResponseHeader(total_group_num=len(groups)).to_ext()
        start, count = header.group_seq, header.max_group_num
        groups = yield from page(groups, version, start=start, version=header.data_version, count=count)
        forbidden = {name: forbidden[name] for name in groups if name in forbidden}
    copy: dict[str, dict[str, int]] = {}
    for name, bits in list(forbidden.items()):
        copy[name] = dict(bits)
        yield
    wrapper = SubscriptionGroupWrapper(subscription_group_table=groups, forbidden_table=copy, data_version=version)
    body = yield from encode_steps(wrapper)
    return request.answer(ext_fields=fields, body=body)


def get_group(broker: GroupAdminView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """The settings of one group, which is made when that is allowed, as Apache's broker does."""
    name = check_group(GetSubscriptionGroupConfigRequestHeader.from_ext(request.ext_fields).group)
    group = broker.groups.find(name)
    if group is None:
        return request.answer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
    return request.answer(body=group.encode())


# --- what a group may not read -------------------------------------------------------------------------


def forbid_group(broker: GroupAdminView, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
    """Forbid or allow a group to read a topic, if the request says so. Answers whether the group may read it."""
    header = UpdateGroupForbiddenRequestHeader.from_ext(request.ext_fields)
    group, topic = check_group(header.group), check_topic(header.topic)
    if header.readable is not None:
        log.info("%s: group %s may read %s: %s", quote(connection.address), group, topic, header.readable)
        broker.groups.set_readable(group, topic, header.readable)
    held = GroupForbidden(group=group, topic=topic, readable=broker.groups.is_readable(group, topic))
    answer = request.answer(body=held.encode())
    return broker.persistence.answer_after_save(connection, request, answer)
