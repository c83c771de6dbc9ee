"""Which data connections there are: when one is dialled, and what becomes of one that nobody wants any more."""

from __future__ import annotations

import pytest
import trio

from rocketpy.client.data_links import DataLinks
from rocketpy.errors import ConnectionLostError

ADDRESS = "broker:10911"


class Pool:
    hooks = ()


class Link:
    def __init__(self):
        self.address = ADDRESS
        self.error = None
        self.retired = False
        self.uses = 0
        self.is_usable = True
        self.shuts = 0

    def __len__(self):
        return 0

    def retire(self):
        self.retired = True

    def shut(self):
        self.shuts += 1


@pytest.fixture
def posts():
    return []


@pytest.fixture
def links(posts):
    made = DataLinks(Pool())
    made.attach(lambda *args: None, posts.append)
    return made


class ClosedAfterALook(DataLinks):
    """Links whose client closes as soon as somebody has looked at them once."""

    attached = None

    @property
    def _post(self):
        found, self.attached = self.attached, None
        return found

    @_post.setter
    def _post(self, post):
        self.attached = post


def test_a_client_that_closes_while_a_connection_is_asked_for_harms_nobody(posts):
    links = ClosedAfterALook(Pool())
    links.attach(lambda *args: None, posts.append)
    assert links.nowait(ADDRESS) is None
    assert len(posts) == 1


async def run_until(links, when):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(links.run)
        await trio.testing.wait_all_tasks_blocked()
        when()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("state", "dials"), [("busy", 0), ("lost", 1), ("retired", 1)])
async def test_one_that_is_only_busy_is_not_dialled_again(links, posts, state, dials):
    link = Link()

    def ask():
        links._stands(link)
        assert links.nowait(ADDRESS) is link
        link.is_usable = False
        link.error = ConnectionLostError("gone") if state == "lost" else None
        link.retired = state == "retired"
        assert links.nowait(ADDRESS) is None

    await run_until(links, ask)
    assert len(posts) == dials


async def test_one_that_stands_while_the_client_closes_is_shut(links):
    link, late = Link(), Link()

    def close_meanwhile():
        # The thread of a loop has just said that one stands, when the client closes.
        link.retire = lambda: setattr(links, "_nursery", None)
        links._stands(link)
        links._stands(late)

    await run_until(links, close_meanwhile)
    assert late.shuts >= 1


async def test_one_that_stands_after_the_end_is_shut(links):
    await run_until(links, lambda: None)
    link = Link()
    links._stands(link)
    assert link.shuts == 1
