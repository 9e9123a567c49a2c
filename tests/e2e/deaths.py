"""Death at a moment that matters: as soon as GitHub has carried out an effect."""

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from tests.support.github.hub import LocalHub
from tests.support.github.hub_state import Exchange

SHOWS_PROGRESS: Final = re.compile(
    rb"I am (looking into this|comparing|putting edit [A-Z]+ into the pull request)"
)
"""How a status comment begins until its run ends; see `bot/comments/status.py`."""


class Deaths:
    """Counts the effects on a hub, and kills who is at work after one of them; one at a time.

    An edit that shows progress is no effect: how many of them are made depends on the time.
    """

    def __init__(self, hub: LocalHub) -> None:
        self.effects: list[str] = []
        """Method and last part of the path of each request that changed something."""
        self._left = 0
        self._die: Callable[[], object] | None = None
        hub.listen(self._count)

    @contextmanager
    def after(self, effect: int, die: Callable[[], object]) -> Generator[None]:
        """Call `die` after the `effect`th effect in the block, counted from 1; 0: never."""
        self._left, self._die = effect, die
        try:
            yield
        finally:
            self._die = None

    def _count(self, exchange: Exchange) -> None:
        is_token = exchange.path.endswith("/access_tokens")
        if exchange.method == "GET" or is_token or exchange.path.endswith("git-upload-pack"):
            return
        if exchange.api == "graphql" and not re.match(rb'{"query": ?"mutation', exchange.body):
            return
        if exchange.method == "PATCH" and SHOWS_PROGRESS.search(exchange.body):
            return
        self.effects.append(f"{exchange.method} {exchange.path.rpartition('/')[2]}")
        if self._die is not None:
            self._left -= 1
            if self._left == 0:
                self._die()
