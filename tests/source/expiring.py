"""Deletes the old files of a broker, as its service does it."""

from __future__ import annotations

import time

from rocketpy import MessageQueue

__all__ = ["expire"]


def expire(cluster, options):
    """Delete old files; returns the offset of the oldest message that is left."""
    from rocketpy.client.call import call, request
    from rocketpy.portal import portal
    from rocketpy.spark.source.brokers import Brokers
    from rocketpy.spark.source.clients import clients
    from rocketpy.wire.codes import RequestCode

    queue = MessageQueue("Expiring", "broker-a", 0)
    with clients().use(options.client) as client:
        address = cluster.broker_addresses[0]
        for _ in range(200):
            command = request(RequestCode.DELETE_EXPIRED_COMMITLOG)
            portal().call(call, client.trio_client.pool, address, command, timeout=3)
            first = Brokers(client.trio_client, options).beginnings([queue])[queue]
            if first:
                return first
            time.sleep(0.05)
    raise AssertionError("nothing has expired")
