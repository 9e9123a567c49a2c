"""Which code a package's tests import, as its own Python tells."""

import json
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An environment's interpreter; its checkout is `tmp_path / "checkout"`."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (tmp_path / "checkout").mkdir()
    return environment / "bin/python"


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def install(python: Path, *, own: bool) -> None:
    """Put a copy of the package into the environment: built from the checkout, or a release."""
    (site,) = python.parent.parent.glob("lib/python3*/site-packages")
    write(site / "shop/__init__.py")
    write(site / "shop-1.dist-info/RECORD", "shop/__init__.py,sha256=0,0\n")
    if own:
        write(site / "shop-1.dist-info/direct_url.json", "{}")


def read_error(python: Path, seconds: float = 100, wall_factor: int = 4) -> str:
    script = resources.files("pipeline.languages.python") / "import_check.py"
    text = script.read_text("utf-8").replace("WALL_FACTOR = 4\n", f"WALL_FACTOR = {wall_factor}\n")
    request = {"names": ["shop"], "mark": "mark", "seconds": seconds}
    told = subprocess.check_output(
        [python, "-I", "-c", text, json.dumps(request)],
        cwd=python.parents[2] / "checkout",
        text=True,
    )
    answer: dict[str, Any] = json.loads(told.strip().removeprefix("mark "))
    (package,) = answer["packages"]
    return package["error"]


@pytest.mark.parametrize(
    ("layout", "own", "hidden"),
    [("src", True, True), ("src", False, True), (".", False, True), (".", True, False)],
)
def test_a_copy_that_hides_the_checkout_is_named(
    python: Path, layout: str, own: bool, hidden: bool
) -> None:
    write(python.parents[2] / "checkout" / layout / "shop/__init__.py")
    install(python, own=own)
    assert ("hides the checkout's own code" in read_error(python)) == hidden


def test_a_package_that_is_linked_to_the_checkout_is_fine(python: Path) -> None:
    checkout = python.parents[2] / "checkout"
    write(checkout / "src/shop/__init__.py")
    (site,) = python.parent.parent.glob("lib/python3*/site-packages")
    write(site / "shop.pth", f"{checkout}/src\n")
    assert read_error(python) == ""


@pytest.mark.parametrize(
    ("text", "seconds", "wall_factor", "error"),
    [
        ("import time; time.sleep(2)", 1.5, 60, ""),  # as on a busy host
        ("while True: pass", 1.5, 60, "the import did not end within 1 s of processor time"),
        # Less what went by before it began.
        ("import time; time.sleep(60)", 5, 1, "the import did not end within [0-4] s"),
    ],
)
def test_the_limit_of_an_import_is_processor_time(
    python: Path, text: str, seconds: float, wall_factor: int, error: str
) -> None:
    write(python.parents[2] / "checkout/shop/__init__.py", text)
    assert re.fullmatch(error, read_error(python, seconds, wall_factor))
