"""`capuchin-bot` and `capuchin-demo` are released together, so each pins the other's version."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_both_packages_have_one_version_and_pin_each_other() -> None:
    bot, demo = (
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        for folder in ("", "deploy/demo")
    )
    assert bot["version"] == demo["version"]
    assert bot["optional-dependencies"]["demo"] == [f"capuchin-demo=={demo['version']}"]
    assert f"capuchin-bot=={bot['version']}" in demo["dependencies"]
