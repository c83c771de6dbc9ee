"""Users' code that sleeps or raises hurts nobody else: others send as usual meanwhile, and nothing closes."""

from __future__ import annotations

import pytest

from tests.matrix.culprits import KINDS, MISDEEDS, OF_CONSUMERS

SLEEPERS = {"a done-callback", "a selector", "a plain listener", "an async listener", "a hook, before", "a strategy"}


def is_quick(surface, kind, misdeed):
    raises = misdeed == "SystemExit" and kind not in OF_CONSUMERS
    return surface == "blocking" and (raises or (misdeed == "sleeps" and kind in SLEEPERS))


def cells():
    return [
        pytest.param(
            surface,
            kind,
            misdeed,
            marks=() if is_quick(surface, kind, misdeed) else (pytest.mark.matrix,),
            id=f"{surface}-{kind}-{misdeed}",
        )
        for surface, kinds in KINDS.items()
        for kind in kinds
        for misdeed in MISDEEDS
    ]


@pytest.mark.parametrize(("surface", "kind", "misdeed"), cells())
def test_users_code_hurts_nobody_else(surface, kind, misdeed, running_worker):
    running_worker.run("tests.matrix.culprits:cell", surface, kind, misdeed, bound=30)
