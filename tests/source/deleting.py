"""Deletes a topic, as operators do it with mqadmin."""

from __future__ import annotations

__all__ = ["delete_topic"]


def delete_topic(cluster, topic):
    """Delete a topic at all brokers and name servers."""
    from rocketpy.client.api import admin, name_server
    from rocketpy.portal import portal
    from rocketpy.sync import MQClientInstance

    with MQClientInstance(namesrv=cluster.name_server_addresses) as client:
        inner = client.trio_client

        async def delete():
            for address in cluster.broker_addresses:
                await admin.delete_topic(inner.pool, address, topic, timeout=3)
            await name_server.delete_topic_route(inner.name_servers, topic)

        portal().call(delete)
