"""The three surfaces behind one face, so that one test says what all of them do."""

from __future__ import annotations

import pytest

from tests.aio.conftest import fakes, hole
from tests.surfaces.surface import SURFACES
from tests.sync.conftest import cluster, namesrv, topic

__all__ = ["cluster", "fakes", "hole", "namesrv", "topic"]


@pytest.fixture(params=SURFACES)
def surface(request):
    return SURFACES[request.param]
