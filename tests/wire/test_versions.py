"""The versions that peers send as numbers."""

from __future__ import annotations

import pytest

from rocketpy.wire.codes import CURRENT_VERSION
from rocketpy.wire.versions import version_text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "3.0.0"),
        (16, "3.0.1-SNAPSHOT"),
        (17, "3.0.1"),
        (28, "3.0.7-SNAPSHOT"),
        (62, "3.1.8-SNAPSHOT"),
        (611, "5.9.9"),
        (612, ""),
        (10**9, ""),
        (-1, ""),
    ],
)
def test_the_text_of_a_version(number: int, text: str) -> None:
    assert version_text(number) == text


def test_the_version_of_this_package() -> None:
    assert version_text(CURRENT_VERSION) == "5.3.3"
