"""Every protection that a change of the source removes; `protections.toml` lists them."""

import platform
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sandbox.guest.supervisor.seccomp import FORBIDDEN

Change = tuple[str, str, str]
"""File, a text that it contains, and the replacement."""


@dataclass(frozen=True)
class Protection:
    """One protection, how a change of the source removes it, and which tests must notice."""

    name: str
    mode: str
    """How the protected executions run, `warm` or `cold`; empty for protections on the host."""
    changes: tuple[Change, ...]
    tests: tuple[str, ...]
    """Below `tests/safety`, without those of the other mode; or whole paths of tests elsewhere."""
    layer: str
    """A Dockerfile line that changes the finished image as `changes` would change a new one."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether its attacks are tests outside `tests/safety`, which need no prepared image."""
        return self.tests[0].startswith("tests/")


def load_protections() -> Iterator[Protection]:
    listed = tomllib.loads(Path(__file__).with_name("protections.toml").read_text("utf-8"))
    for entry in listed["protection"]:
        for mode in entry.get("modes", ("",)):
            yield load_protection(entry, mode)


def load_protection(entry: Mapping[str, Any], mode: str) -> Protection:
    changes = [(file, old, new) for file, old, new in entry.get("changes", ())]
    return Protection(
        name=entry["name"],
        mode=mode,
        changes=(*changes, *allow_system_calls(entry.get("system_calls", ()), mode)),
        tests=tuple(test.replace("{mode}", mode) for test in entry["tests"]),
        layer=entry.get("layer", ""),
    )


def allow_system_calls(names: Sequence[str], mode: str) -> Iterator[Change]:
    """Allow them in the profile of a container and, for a warm execution, in its second filter."""
    if names:
        listed = "".join(f'"{name}", ' for name in names)
        first = '"accept", "accept4"'
        yield "sandbox/guest/image/seccomp.json", first, listed + first
    column = 0 if platform.machine() == "x86_64" else 1
    numbers = [FORBIDDEN[name][column] for name in names if name in FORBIDDEN]
    if numbers and mode == "warm":
        forbidden = "for number in numbers if number "
        yield (
            "sandbox/guest/supervisor/seccomp.py",
            f"{forbidden}is not None",
            f"{forbidden}not in {(None, *numbers)}",
        )


PROTECTIONS: Final = tuple(load_protections())
