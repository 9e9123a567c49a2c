"""`--learn FOLDER`: an environment with the trainer; the tests that need it are skipped without."""

import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

_SPREAD = "0.3"
"""Weights so large that a small adapter learns eight rows by heart in seconds."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--learn", type=Path, help="an environment with deploy/learn-cpu.lock")


@pytest.fixture(scope="session")
def trainer_python(request: pytest.FixtureRequest) -> Generator[str]:
    place: Path | None = request.config.getoption("--learn", None)
    if place is None:
        pytest.skip("needs --learn FOLDER; `make test-learn` and `make test-vllm` install one")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")  # on a busy machine, threads wait for one another
        yield str(place.resolve() / "bin/python")


@pytest.fixture(scope="session")
def base_model(trainer_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with random weights."""
    folder = tmp_path_factory.mktemp("base") / "model"
    maker = Path(__file__).parents[1] / "live/tiny_model.py"
    subprocess.run([trainer_python, str(maker), str(folder), _SPREAD], check=True)
    return folder
