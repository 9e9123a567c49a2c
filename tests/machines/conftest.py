from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.regression import compare as control
from sandbox.program import Execution
from tests.support.data.solver_shop import Shop, open_shop


@pytest.fixture(scope="session")
def remembered() -> dict[tuple[object, ...], Execution]:
    """What running the shop's code came to: equal runs are done once in a whole session."""
    return {}


@pytest.fixture(autouse=True)
def name_controls_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a name of its own, each control would be a run that was never done before."""

    def token_hex(size: int) -> str:
        return "0f" * size

    monkeypatch.setattr(control, "secrets", SimpleNamespace(token_hex=token_hex))


@pytest.fixture
async def shop(tmp_path: Path, remembered: dict[tuple[object, ...], Execution]) -> Shop:
    shop = await open_shop(tmp_path)
    shop.sandbox.results = remembered
    return shop
