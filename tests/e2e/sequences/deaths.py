"""Death at a moment that matters: as soon as GitHub has done something for whoever is at work."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from bot.localhub import Exchange


class Death:
    """Waits for one at a time; who dies does nothing afterwards."""

    def __init__(self) -> None:
        self._left = 0
        self._die: Callable[[], object] | None = None

    @contextmanager
    def after(self, effect: int, die: Callable[[], object]) -> Generator[None]:
        """`die` is called when the `effect`th thing has been done meanwhile, if so many are."""
        self._left, self._die = effect, die
        try:
            yield
        finally:
            self._die = None

    def exchanged(self, exchange: Exchange) -> None:
        """GitHub has answered."""
        read = exchange.method == "GET" or exchange.path.endswith(("/access_tokens", "upload-pack"))
        if read or self._die is None:
            return
        self._left -= 1
        if self._left == 0:
            self._die()
