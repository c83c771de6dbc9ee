"""Every command of `mqadmin` prints the same on our servers as on Apache's, but for what is explained."""

from __future__ import annotations

import pytest

from tests.interop.apache import Apache
from tests.interop.mqadmin.known import KNOWN, REFUSED
from tests.interop.mqadmin.outcomes import stale, unexplained
from tests.interop.mqadmin.run import Run, run
from tests.rules import listed

pytestmark = [pytest.mark.interop, pytest.mark.waits("waits for Apache's servers and clients")]


@pytest.fixture(scope="module")
def compared(apache: Apache) -> Run:
    """All commands of a line, called on both."""
    return run(apache)


def test_A7_A8_nothing_differs_without_a_reason(compared: Run) -> None:
    listed(
        unexplained(compared, KNOWN, REFUSED),
        f"mqadmin of {compared.version} prints something else; mend the server, or explain it in known.py",
    )


def test_what_is_explained_is_still_so(compared: Run) -> None:
    listed(stale(compared, KNOWN, REFUSED), "take it out of known.py, and write the page again")


def test_every_command_of_the_release_is_called(compared: Run) -> None:
    listed(
        set(compared.commands) - {said.step.command for said in compared.said},
        f"steps.py has no step for these commands of {compared.version}",
    )
