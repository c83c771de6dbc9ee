"""The commands of `rocketpy`: where they are, and what the main help says about them."""

from __future__ import annotations

from typing import Final

from rocketpy.cli.lazy import Entry

__all__ = ["COMMANDS"]

_MESSAGES = "Messages"
_CLUSTER = "Administration"
_OTHER = "Other"

COMMANDS: Final = {
    "tail": Entry("rocketpy.cli.tail:tail", "Show the last messages of a topic, or follow it.", _MESSAGES),
    "send": Entry("rocketpy.cli.send:send", "Send a message, or many from a file or a pipe.", _MESSAGES),
    "message": Entry("rocketpy.cli.message:message", "Find, read, resend and track messages.", _MESSAGES),
    "dlq": Entry("rocketpy.cli.dlq:dlq", "List and replay the dead letters of a group.", _MESSAGES),
    "trace": Entry("rocketpy.cli.trace:trace", "Show what traced clients did with a message.", _MESSAGES),
    "bench": Entry("rocketpy.cli.bench:bench", "Put a topic under load and measure latencies.", _MESSAGES),
    "topic": Entry("rocketpy.cli.topic:topic", "List, inspect, create, update and delete topics.", _CLUSTER),
    "group": Entry("rocketpy.cli.group:group", "Manage consumer groups and their offsets.", _CLUSTER),
    "lag": Entry("rocketpy.cli.lag:lag", "Show how far groups are behind, once or live.", _CLUSTER),
    "producer": Entry("rocketpy.cli.producer:producer", "Show connected producers.", _CLUSTER),
    "consumer": Entry("rocketpy.cli.consumer:consumer", "Show connected consumers.", _CLUSTER),
    "broker": Entry("rocketpy.cli.broker:broker", "Inspect, configure and clean up brokers.", _CLUSTER),
    "cluster": Entry("rocketpy.cli.cluster:cluster", "Show clusters and the rates of their brokers.", _CLUSTER),
    "namesrv": Entry("rocketpy.cli.namesrv:namesrv", "Inspect and configure name servers.", _CLUSTER),
    "completion": Entry("rocketpy.cli.completion:completion", "Print the line that enables shell completion.", _OTHER),
    "mqadmin": Entry("rocketpy.cli.mqadmin.names:mqadmin", "List the commands of mqadmin, which work too.", _OTHER),
}
"""The commands by name, in the order of the help."""
