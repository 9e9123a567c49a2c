"""Which interpreter of an image an environment gets: programs that answer as interpreters do."""

import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.guest.image import choose_python

STAND_IN = """\
#!/bin/sh
case "$1" in
    -c) echo {version} ;;
    -m) mkdir -p "$4/bin" "$4/lib/python{version}/site-packages" && cp "$0" "$4/bin/python" ;;
esac
"""


def interpreter(path: Path, version: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(STAND_IN.format(version=version))
    path.chmod(0o755)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Its environment has 3.11; 3.9 and 3.10 are there too, and what is no interpreter."""
    interpreter(tmp_path / "env/bin/python", "3.11")
    for version in ("3.9", "3.10"):
        interpreter(tmp_path / "bin" / f"python{version}", version)
    interpreter(tmp_path / "bin/python3-config", "3.8")
    (tmp_path / "bin/python3.7").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin/python3.7").chmod(0o755)
    return tmp_path


def choose(image: Path, *, accepted: str, wanted: str = "") -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", choose_python.__file__, "--accepted", accepted]
    argv += ["--wanted", wanted, "--asked", "<3.11", "--where", "pyproject.toml"]
    argv += ["--environment", str(image / "env"), "--folders", f"{image}/none:{image}/bin"]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("accepted", "wanted", "got"),
    [
        ("3.10,3.9", "", "3.10"),
        ("3.9", "", "3.9"),
        ("3.11,3.10,3.9", "3.9", "3.9"),
        ("3.8,3.7,3.9", "", "3.9"),
    ],
)
def test_another_interpreter_of_the_image_takes_over(
    image: Path, accepted: str, wanted: str, got: str
) -> None:
    done = choose(image, accepted=accepted, wanted=wanted)
    assert (done.returncode, done.stdout) == (0, f"the environment has Python {got}\n")
    packages = image / f"env/lib/python{got}/site-packages"
    assert (packages / "capuchin.pth").read_text() == "/testbed\n"


@pytest.mark.parametrize(("accepted", "wanted"), [("3.11,3.10", ""), ("3.11,3.10", "3.8")])
def test_an_environment_that_will_do_is_left_alone(image: Path, accepted: str, wanted: str) -> None:
    done = choose(image, accepted=accepted, wanted=wanted)
    assert (done.returncode, done.stdout) == (0, "")
    assert not (image / "env/lib").exists()


def test_bounds_that_no_version_meets_are_reported_with_what_is_there(image: Path) -> None:
    done = choose(image, accepted="")
    assert done.returncode == choose_python.NONE_FITS
    assert done.stdout.startswith(
        "This repository asks for Python <3.11 (pyproject.toml), and the sandbox has 3.9, 3.10, "
        "3.11. No version of Python 3 is within these bounds."
    )
