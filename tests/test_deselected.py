"""Only what every such run leaves out is left out beforehand."""

from __future__ import annotations

import pytest

from tests.deselected import left_out


@pytest.mark.parametrize(
    ("expression", "markers"),
    [
        ("", set()),
        ("nightly", set()),
        ("not nightly", {"nightly"}),
        ("(not nightly) and not alone", {"nightly", "alone"}),
        ("not interop and not spark and slow", {"interop", "spark"}),
        ("not nightly or crash", set()),
        ("not (nightly and crash)", set()),
        ("not not nightly", set()),
        ("crash and (slow or not nightly)", set()),
        ("not", set()),
    ],
)
def test_a_marker_is_left_out_if_every_test_with_it_is_deselected(expression: str, markers: set[str]) -> None:
    assert left_out(expression) == markers
