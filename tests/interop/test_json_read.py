"""The golden table of unusual JSON is what Apache's classes make of it, release by release."""

from __future__ import annotations

import pytest

from tests.interop.apache import Apache, unavailable
from tests.interop.json_read import RELEASES, asked
from tests.interop.requirement import require
from tests.wire.json_cases import read_golden

pytestmark = pytest.mark.interop


def test_the_golden_table_is_what_apaches_classes_read() -> None:
    for version in RELEASES:
        require(unavailable(version))
    assert asked(Apache.resolve(version) for version in RELEASES) == read_golden()
