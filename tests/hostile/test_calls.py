"""What a turn cannot divide stays below what the page promises."""

from __future__ import annotations

import pytest

from tests.hostile.calls import CALLS, seconds
from tests.hostile.measure import CALL


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_a_call_into_c_over_a_body_at_its_limit(name: str) -> None:
    assert seconds(CALLS[name], tries=3) <= CALL
