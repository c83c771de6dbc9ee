"""Whether groups pull topics or pop them: SET_MESSAGE_REQUEST_MODE and GET_ALL_MESSAGE_REQUEST_MODE. Here all pull.

Plays the part of setMessageRequestMode in QueryAssignmentProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.logs import get_logger, quote
from rocketpy.wire.bodies.groups import MessageRequestModeSerializeWrapper, SetMessageRequestModeRequestBody
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.enums import MessageRequestMode
from rocketpy.wire.limits import SMALL_REQUEST_LIMITS
from rocketpy.wire.names import RETRY_PREFIX
from rocketpy_broker_sim.broker.processors.checks import check_group, check_topic

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.admin_views import RequestModeView

__all__ = ["get_request_modes", "set_request_mode"]

log = get_logger(__name__)


def set_request_mode(broker: RequestModeView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Set the mode of a group for a topic to pull, which it is anyway. Any other mode is refused."""
    body = SetMessageRequestModeRequestBody.decode(request.body, limits=SMALL_REQUEST_LIMITS)
    topic, group = check_topic(body.topic or ""), check_group(body.consumer_group or "")
    if topic.startswith(RETRY_PREFIX):
        return request.answer(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    if topic not in broker.topics:
        return request.answer(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    if broker.groups.find(group) is None:
        return request.answer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist")
    if body.mode is not MessageRequestMode.PULL:
        remark = f"the group {group} can only pull {topic}: this broker has no consumption by POP"
        return request.answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
    broker.modes.put(topic, group, body)
    log.info("%s has group %s pull topic %s", quote(connection.address), group, topic)
    return request.answer()


def get_request_modes(broker: RequestModeView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """The modes that were set, all of which are pull."""
    modes = broker.modes.by_topic(lambda topic, group: topic in broker.topics and broker.groups.find(group) is not None)
    return request.answer(body=MessageRequestModeSerializeWrapper(message_request_mode_map=modes).encode())
