"""The frames of sends: made from a template, or encoded field by field if there are hooks, which see the fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.remoting.hooks import hook_before
from rocketpy.seams import wall_ms
from rocketpy.wire.codes import ONEWAY_FLAG
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.send import SendMessageRequestHeader
from rocketpy.wire.serialize import encode_command
from rocketpy.wire.templates import SendTemplate

if TYPE_CHECKING:
    from collections.abc import Container

    from rocketpy.client.attempt import RequestConnection
    from rocketpy.client.preparing.outgoing import Outgoing
    from rocketpy.config import ProducerConfig
    from rocketpy.message import MessageQueue
    from rocketpy.wire.codes import SerializeType

__all__ = ["MAX_TEMPLATES", "SendFrames"]

MAX_TEMPLATES = 4096
"""The largest number of templates that a producer keeps, and of topics for which it keeps a fast path."""


class SendFrames:
    """Makes the frames of a producer. Thread-safe."""

    def __init__(self, config: ProducerConfig, serialize_type: SerializeType) -> None:
        self._config = config
        self._serialize_type = serialize_type
        self._templates: dict[tuple[str, str, int], SendTemplate] = {}

    def oneway(self, outgoing: Outgoing, queue: MessageQueue, broker_name: str, connection: RequestConnection) -> bytes:
        """Return the frame of a request without an answer."""
        opaque = connection.next_opaque()
        if connection.hooks:
            return encode_command(self.hooked(outgoing, queue, broker_name, connection, opaque, ONEWAY_FLAG))
        return self.filled(outgoing, queue, broker_name, opaque, oneway=True)

    def hooked(
        self,
        outgoing: Outgoing,
        queue: MessageQueue,
        broker_name: str,
        connection: RequestConnection,
        opaque: int,
        flag: int = 0,
    ) -> RemotingCommand:
        """Return the request as fields, after the hooks have seen and perhaps signed it."""
        header = self._header(outgoing, broker_name)
        header.queue_id, header.sys_flag, header.born_timestamp = queue.queue_id, outgoing.sys_flag, wall_ms()
        header.flag, header.properties = outgoing.message.flag, outgoing.properties
        command = RemotingCommand(outgoing.code, header.to_short_ext(), outgoing.body, opaque, flag)
        command.serialize_type = connection.serialize_type
        if connection.hooks:
            hook_before(connection.hooks, connection.address, command)
        return command

    def filled(
        self, outgoing: Outgoing, queue: MessageQueue, broker_name: str, opaque: int, *, oneway: bool = False
    ) -> bytes:
        """Return the frame, made from the template of its topic, broker and request code."""
        message = outgoing.message
        return self.template(outgoing, broker_name).frame(
            opaque,
            queue.queue_id,
            outgoing.sys_flag,
            wall_ms(),
            message.flag,
            outgoing.properties,
            outgoing.body,
            oneway=oneway,
        )

    def template(self, outgoing: Outgoing, broker_name: str) -> SendTemplate:
        """Return the template of the requests for a topic to a broker."""
        template = self._templates.get((outgoing.message.topic, broker_name, outgoing.code))
        if template is None or outgoing.has_counts:
            template = self._new_template(outgoing, broker_name)
        return template

    def _new_template(self, outgoing: Outgoing, broker_name: str) -> SendTemplate:
        made = SendTemplate(
            self._header(outgoing, broker_name), code=outgoing.code, serialize_type=self._serialize_type
        )
        if not outgoing.has_counts and len(self._templates) < MAX_TEMPLATES:
            self._templates[outgoing.message.topic, broker_name, outgoing.code] = made
        return made

    def _header(self, outgoing: Outgoing, broker_name: str) -> SendMessageRequestHeader:
        return SendMessageRequestHeader(
            producer_group=self._config.group,
            topic=outgoing.topic,
            default_topic=self._config.create_topic_key,
            default_topic_queue_nums=self._config.default_topic_queue_nums,
            queue_id=0,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            properties="",
            reconsume_times=outgoing.reconsume_times,
            unit_mode=self._config.unit_mode,
            batch=outgoing.is_batch,
            max_reconsume_times=outgoing.max_reconsume_times,
            bname=broker_name,
        )

    def retain(self, broker_names: Container[str]) -> None:
        """Drop the templates of all other brokers."""
        self._templates = {key: made for key, made in [*self._templates.items()] if key[1] in broker_names}
