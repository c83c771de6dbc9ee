"""Servers of both kinds in one cluster: our broker and Apache's, each registered with both name servers.

Apache's servers are set to binary headers here; those of the fixture `apache_cluster` to JSON.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.interop import jvm, probe
from tests.interop.ours import our_broker, our_name_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.apache import Apache

APACHES, OURS = "broker-apache", "broker-ours"
QUEUES = 2


@dataclass(frozen=True)
class Mixed:
    """The addresses of a name server and a broker of either kind."""

    apache_namesrv: str
    our_namesrv: str
    apache_broker: str
    our_broker: str

    @property
    def name_servers(self) -> tuple[str, str]:
        """Apache's and ours."""
        return self.apache_namesrv, self.our_namesrv

    def create_topic(self, topic: str) -> None:
        """Create a topic on both brokers and wait until both name servers tell of it."""
        for broker in (self.apache_broker, self.our_broker):
            probe.create_topic(broker, topic, queues=QUEUES)
        for name_server in self.name_servers:
            probe.wait_route(name_server, topic, brokers=2)


@contextmanager
def mixed_cluster(apache: Apache) -> Iterator[Mixed]:
    """Run the four."""
    binary = replace(apache, options=(*apache.options, *jvm.ROCKETMQ_HEADERS))
    with ExitStack() as stack:
        theirs = stack.enter_context(binary.name_server())
        ours = stack.enter_context(our_name_server()).address
        both = f"{theirs.address};{ours}"
        apaches = stack.enter_context(binary.broker(both, name=APACHES))
        assert all("serializeType=ROCKETMQ" in str(each.process.lines) for each in (theirs, apaches))
        own = stack.enter_context(our_broker(both, name=OURS)).address
        yield Mixed(theirs.address, ours, apaches.address, own)
