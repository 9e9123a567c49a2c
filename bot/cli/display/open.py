"""Chooses the display: live on a terminal, events for a program, otherwise plain lines."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

from bot.cli.display.base import CURRENT, Display, PlainLines
from bot.cli.display.events import EventLines


@contextmanager
def open_display(*, json: bool = False, stages: bool = True) -> Generator[Display]:
    """Show progress on standard error until the block ends.

    `json`: one JSON object a line, unless a person watches. `stages`: list the stages of a run that
    fixes an issue.
    """
    display = _choose(json=json, stages=stages)
    token = CURRENT.set(display)
    try:
        yield display
    finally:
        CURRENT.reset(token)
        display.close()


def _choose(*, json: bool, stages: bool) -> Display:
    if not sys.stderr.isatty():
        return EventLines() if json else PlainLines()
    from bot.cli.display.live import LiveDisplay, open_console  # rich takes long to import

    console = open_console()
    if console.is_dumb_terminal or console.no_color:  # TERM=dumb, NO_COLOR
        return PlainLines()
    return LiveDisplay(console, stages=stages)
