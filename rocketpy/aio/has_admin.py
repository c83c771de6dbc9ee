"""HasAdmin: the method by which producers and consumers return an Admin that shares their client."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rocketpy.client.shared_client import ClientOf

if TYPE_CHECKING:
    from rocketpy.aio.admin import Admin
    from rocketpy.aio.client import MQClientInstance

__all__ = ["HasAdmin"]


class HasAdmin:
    """Base class of producers and consumers."""

    def admin(self) -> Admin:
        """Return an `Admin` that shares this client: ``async with producer.admin() as admin:``.

        It can be used as long as this producer or consumer is open.
        """
        from rocketpy.aio.admin import Admin  # few programs use it

        return Admin(client=cast("MQClientInstance", ClientOf(self, "rocketpy.aio")))
