"""The golden list of configuration keys is what Apache's classes say, release by release."""

from __future__ import annotations

import pytest

from tests.interop.apache import Apache, unavailable
from tests.interop.config_keys import RELEASES, asked, read_golden
from tests.interop.requirement import require

pytestmark = pytest.mark.interop


def test_the_golden_list_of_keys_is_what_apaches_classes_say() -> None:
    for version in RELEASES:
        require(unavailable(version))
    assert asked(Apache.resolve(version) for version in RELEASES) == read_golden()
