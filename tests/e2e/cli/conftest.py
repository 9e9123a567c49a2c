"""The fixtures of the command line's end-to-end tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from capuchin_demo.recorded.recording import RecordedAnswer
from capuchin_demo.recorded.server import RecordedServer
from tests.e2e import shop
from tests.e2e.cli.desk import Desk


@pytest.fixture(scope="session")
def desk_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the first selection makes."""
    return tmp_path_factory.mktemp("desk") / "environment"


@pytest.fixture
async def desk(tmp_path: Path, desk_environment: Path) -> AsyncGenerator[Desk]:
    script = RecordedAnswer(call="selecting", turn=0, reply=shop.SCRIPT)
    choice = RecordedAnswer(call="selecting", reply="<choice>1</choice>")
    llm = RecordedServer(shop.answers(script, choice))
    async with llm.serve() as url:
        yield Desk(tmp_path, url, desk_environment)
    assert llm.unexpected == []
