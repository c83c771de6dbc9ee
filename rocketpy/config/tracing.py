"""The settings of those whose messages are traced: producers, push consumers and lite pull consumers. Pure."""

from __future__ import annotations

import attrs

from rocketpy.config.checks import topic_name, whole
from rocketpy.config.observed import ObservedConfig

__all__ = ["TracedConfig"]


@attrs.frozen(kw_only=True)
class TracedConfig(ObservedConfig):
    """Whether messages are traced, and where the records go."""

    enable_msg_trace: bool = attrs.field(default=False, metadata={"java": "enableTrace"})
    """Whether it is recorded, on a topic of the brokers, who sent and who consumed each message, when, and how that
    went. `mqadmin queryMsgTraceById` shows it."""
    trace_topic: str = attrs.field(default="RMQ_SYS_TRACE_TOPIC", validator=topic_name, metadata={"java": "traceTopic"})
    """The topic of these records. The default one exists where brokers have `traceTopicEnable`."""
    trace_msg_batch_num: int = attrs.field(default=100, validator=whole(1, 1000), metadata={"java": "traceMsgBatchNum"})
    """Records that travel in one message, of up to 128,000 bytes; what has gathered goes every 5 seconds."""
