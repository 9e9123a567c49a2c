"""A clock that a test moves."""

import time


class MovableClock:
    """Seconds since the epoch that a test can move."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead
