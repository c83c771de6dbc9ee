"""What cannot be right is refused when it is given, in the same words on every surface."""

from __future__ import annotations

import pytest

from rocketpy.errors import ConfigError
from tests.surfaces.surface import SURFACES


@pytest.mark.parametrize("role", ["Producer", "PushConsumer"])
@pytest.mark.parametrize("name", SURFACES)
def test_what_is_no_client_cannot_be_shared(name: str, role: str) -> None:
    module = SURFACES[name].module
    with pytest.raises(ConfigError, match=rf"client must be a {module.__name__}\.MQClientInstance, not 'mine'"):
        getattr(module, role)("group", namesrv="127.0.0.1:9876", client="mine")
