from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.base import Execution
from tests.support.data.solver_shop import Shop, open_shop


@pytest.fixture(scope="session")
def remembered() -> dict[tuple[object, ...], Execution]:
    """What running the shop's code came to: equal runs are done once in a whole session."""
    return {}


@pytest.fixture
async def shop(tmp_path: Path, remembered: dict[tuple[object, ...], Execution]) -> Shop:
    shop = await open_shop(tmp_path)
    shop.sandbox.results = remembered
    return shop
