"""What an executor or a checker returns, read as a state: a member, or its name in any case, and nothing else."""

from __future__ import annotations

import pytest

from rocketpy.producer.local_half import judged
from rocketpy.results import LocalTransactionState


@pytest.mark.parametrize("name", ["commit", "Commit", "COMMIT"])
def test_the_name_of_a_state_is_the_state(name: str) -> None:
    assert judged("executor", name).state is LocalTransactionState.COMMIT


@pytest.mark.parametrize("text", ["comm\u0131t", "committed", " commit", "", "rollbac\u212a"])
def test_text_that_only_resembles_a_name_is_no_state(text: str) -> None:
    """A dotless i becomes the I of COMMIT in capitals."""
    assert judged("executor", text).state is LocalTransactionState.UNKNOWN
