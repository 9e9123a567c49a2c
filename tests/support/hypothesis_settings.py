"""How requests of anything are generated: the same ones each time."""

from typing import Final

from hypothesis import HealthCheck, settings

QUICK: Final = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
