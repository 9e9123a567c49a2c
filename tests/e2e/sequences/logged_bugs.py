"""What the bot's log calls a bug: it is ridden out, so that the end alone would not show it."""

import logging
from collections.abc import Generator
from contextlib import contextmanager


class Bugs(logging.Handler):
    """`found` has a sentence for each exception that nobody had thought of."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None and record.exc_info[1] is not None:
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")

    @contextmanager
    def noted(self) -> Generator[None]:
        """Listen to all that the bot logs."""
        log = logging.getLogger("bot")
        log.addHandler(self)
        try:
            yield
        finally:
            log.removeHandler(self)
