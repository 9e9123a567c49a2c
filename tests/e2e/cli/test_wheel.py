"""The packages as people install them: into a new environment, and started from another folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
VERSIONS = ("3.11", "3.12", "3.13")


def find_python(version: str) -> str | None:
    """The program of a Python version; None if it is not installed."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    kept = sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python"))
    return str(kept[-1]) if kept else shutil.which(f"python{version}")


def run(*command: str | Path, folder: Path) -> str:
    names = ("PYTHONPATH", "VIRTUAL_ENV", "CAPUCHIN_", "ANTHROPIC_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(names)}  # noqa: TID251 - a person's own environment
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**env, "CAPUCHIN_DATA_DIR": str(folder / "data")},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("wheels")
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder)
    run(*pip, ROOT, ROOT / "deploy/demo", folder=folder)
    return sorted(folder.glob("*.whl"))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_installed_demo_opens_its_pull_request(
    wheels: list[Path], tmp_path: Path, version: str
) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    run(python, "-m", "venv", tmp_path / "venv", folder=tmp_path)
    programs = tmp_path / "venv/bin"
    run(programs / "pip", "install", "--quiet", *wheels, folder=tmp_path)
    assert "No broken requirements" in run(programs / "pip", "check", folder=tmp_path)
    said = run(programs / "capuchin", "demo", folder=tmp_path)
    assert "/pull/2" in said
