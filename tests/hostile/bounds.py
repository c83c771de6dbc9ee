"""Every bound on what one request may ask: a request at the bound, which is taken, and one beyond, which is refused.

The figures are those of the code. `test_bounds` finds the bounds that have no attack, and `test_bounds_of_tables` tries
those that several requests reach together.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketpy.wire.codes import RequestCode
from tests.hostile import bounds_of_brokers, bounds_of_name_servers
from tests.hostile.measure import Attack

_BOUNDS = {**bounds_of_brokers.BOUNDS, **bounds_of_name_servers.BOUNDS}


def bounds(code: RequestCode) -> Iterator[Attack]:
    """The attacks of a code at its bounds and one beyond."""
    make = _BOUNDS.get(code)
    if make is not None:
        yield from make(code)
