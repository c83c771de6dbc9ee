"""The route of a topic to which a producer is about to send."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpy.client.routes.publish_info import TopicPublishInfo
    from rocketpy.client.sends.sending import SendCore

__all__ = ["ensure_route"]


async def ensure_route(core: SendCore, topic: str, *, timeout: float) -> TopicPublishInfo:
    """Return the queues of a topic within `timeout` seconds, even of a topic that sending will create.

    Raises:
        RouteNotFoundError: no broker takes messages of it; the subclass says why.
    """
    config = core.config
    return await core.client.routes.ensure(
        topic,
        timeout=timeout,
        default_topic=config.create_topic_key,
        default_queue_nums=config.default_topic_queue_nums,
    )
