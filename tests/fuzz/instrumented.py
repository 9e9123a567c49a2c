"""The targets with every branch of their parsers followed: import it once, then fork.

To instrument takes much longer than to import, and one process does it for all targets. A target
then follows modules that are not its own, which makes it slower.
"""

import contextlib
import gc
import io
from collections.abc import Mapping
from typing import Any, Final

import atheris  # pyright: ignore[reportMissingImports]

from tests.fuzz.target import Target

FUZZER: Final[Any] = atheris
PACKAGES: Final = ("bot", "pipeline", "prompts", "sandbox", "tarfile", "tomllib", "yaml")
"""Whole packages: atheris reads no more than the first part of a name."""


def _import_instrumented() -> Mapping[str, Target]:
    follow = FUZZER.instrument_imports(include=PACKAGES, enable_loader_override=False)
    with contextlib.redirect_stderr(io.StringIO()), follow:  # it names each module
        from tests.fuzz.targets import TARGETS
    gc.freeze()  # a collection in a child would copy all these pages
    return TARGETS


INSTRUMENTED: Final = _import_instrumented()
