"""What a release loads: its servers start, a producer sends, a consumer gets it, an admin client looks, all listing."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.interop import jvm, probe, servers
from tests.interop.class_archive import listing
from tests.interop.drivers import java_admins, java_produce, java_push_consumer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.apache import Apache

TOPIC = "Loaded"
MESSAGES = 3


def load(apache: Apache, lists: Path) -> None:
    """Have each kind of JVM list its classes in the directory."""

    def launch(name: str) -> servers.Launch:
        return servers.Launch(apache.jars, options=(*jvm.QUICK, *listing(lists, name)))

    with ExitStack() as stack:
        head = stack.enter_context(servers.name_server(launch("name-server")))
        broker = stack.enter_context(servers.broker(launch("broker"), head.address))
        probe.create_topic(broker.address, TOPIC, queues=1)
        probe.wait_route(head.address, TOPIC)
        consumed = java_push_consumer(apache, head.address, "loading", TOPIC, jvm_options=listing(lists, "consumer"))
        with consumed as consumer:
            java_produce(apache, head.address, TOPIC, MESSAGES, jvm_options=listing(lists, "producer"))
            consumer.wait_messages(MESSAGES)
            consumer.finish()
        with java_admins(apache, jvm_options=listing(lists, "admin")) as admin_at:
            admin_at(head.address).run("cluster")
