"""HasAdmin: the method by which producers and consumers return an Admin that shares their client."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpy.admin.admin import Admin
    from rocketpy.client.instance import MQClientInstance

__all__ = ["HasAdmin"]


class HasAdmin:
    """Base class of producers and consumers on trio."""

    if TYPE_CHECKING:
        client: MQClientInstance

    def admin(self) -> Admin:
        """Return an `Admin` that shares this client: ``async with producer.admin() as admin:``.

        It can be used as long as this producer or consumer is open.
        """
        from rocketpy.admin.admin import Admin  # few programs use it

        made = Admin(client=self.client)
        made._owner = self
        return made
