"""The sources of what runs inside the sandbox beside the tests."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def read_recorder_files() -> dict[str, str]:
    """The recorder's files, by name."""
    folder = resources.files("pipeline.regression.guest")
    names = ("__init__", "record", "functions", "pytest_plugin", "unittest_recorder")
    names += ("unittest_main", "script_main")
    return {f"{name}.py": (folder / f"{name}.py").read_text("utf-8") for name in names}


@cache
def read_wrapper_source() -> str:
    return (resources.files("pipeline.regression.guest") / "wrapper.py").read_text("utf-8")
