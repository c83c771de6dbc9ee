"""The trace settings of producers, push consumers and lite pull consumers. Pure."""

from __future__ import annotations

import attrs

from rocketpy.config.checks import flag, topic_name, whole
from rocketpy.config.observed import ObservedConfig

__all__ = ["TracedConfig"]


@attrs.frozen(kw_only=True, repr=False)
class TracedConfig(ObservedConfig):
    """Whether messages are traced, and where the records go."""

    enable_msg_trace: bool = attrs.field(default=False, validator=flag, metadata={"java": "enableTrace"})
    """Whether to record, on `trace_topic`, who sent and who consumed each message, when, and whether that succeeded.
    `mqadmin queryMsgTraceById` shows the records."""
    trace_topic: str = attrs.field(default="RMQ_SYS_TRACE_TOPIC", validator=topic_name, metadata={"java": "traceTopic"})
    """The topic to which trace records are sent. The default one exists if brokers have `traceTopicEnable=true`."""
    trace_msg_batch_num: int = attrs.field(default=100, validator=whole(1, 1000), metadata={"java": "traceMsgBatchNum"})
    """The largest number of trace records in one message, which has up to 128,000 bytes. Fewer are sent after 5
    seconds."""
