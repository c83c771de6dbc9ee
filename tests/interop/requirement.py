"""Skip for want of a tool, or fail where nothing may be skipped: the only part of the harness that knows pytest."""

from __future__ import annotations

import pytest

from tests.interop.toolchain import nothing_may_be_skipped


def require(missing: str | None) -> None:
    """Go on when nothing is missing; otherwise skip, or fail when CI is set."""
    if missing is None:
        return
    if nothing_may_be_skipped():
        pytest.fail(f"{missing} (CI is set: nothing is skipped)", pytrace=False)
    pytest.skip(missing)
