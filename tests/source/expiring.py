"""Deletes the old files of a broker, as its service does it."""

from __future__ import annotations

import time

from rocketpy import MessageQueue

__all__ = ["delete_expired", "expire"]


def delete_expired(cluster, options):
    """Have the broker delete old files."""
    from rocketpy.client.call import call, request
    from rocketpy.portal import portal
    from rocketpy.spark.source.clients import clients
    from rocketpy.wire.codes import RequestCode

    with clients().use(options.client) as client:
        command = request(RequestCode.DELETE_EXPIRED_COMMITLOG)
        portal().call(call, client.trio_client.pool, cluster.broker_addresses[0], command, timeout=3)


def expire(cluster, options):
    """Delete old files; returns the offset of the oldest message that is left."""
    from rocketpy.spark.source.brokers import Brokers
    from rocketpy.spark.source.clients import clients

    queue = MessageQueue("Expiring", "broker-a", 0)
    with clients().use(options.client) as client:
        for _ in range(200):
            delete_expired(cluster, options)
            first = Brokers(client.trio_client, options).beginnings([queue])[queue]
            if first:
                return first
            time.sleep(0.05)
    raise AssertionError("nothing has expired")
