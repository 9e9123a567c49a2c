"""What is said of a Debian package that could not be installed."""

import pytest

from sandbox.guest.image import install_packages
from sandbox.guest.image.install_packages import NO_PACKAGE, install_alone


@pytest.mark.parametrize(
    ("printed", "code", "said"),
    [
        ("Setting up openjdk\n", 0, ""),
        (
            "dpkg: error processing package x\nE: Sub-process dpkg returned (1)\n",
            100,
            "dpkg: error",
        ),
        ("nothing that says why\n", 100, ""),
    ],
)
def test_a_package_that_fails_is_named_with_its_cause(
    monkeypatch: pytest.MonkeyPatch, printed: str, code: int, said: str
) -> None:
    def command(names: list[str]) -> list[str]:
        return ["sh", "-c", f"printf '%s' '{printed}'; exit {code}", *names]

    monkeypatch.setattr(install_packages, "install_command", command)
    line = install_alone("openjdk-17-jdk-headless")
    assert line.startswith(f"{NO_PACKAGE} openjdk-17-jdk-headless" if code else line)
    assert (said in line, bool(line)) == (True, bool(code))
