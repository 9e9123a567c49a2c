"""What each of these tests starts from."""

import os
from collections.abc import Generator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _nothing_set() -> Generator[None]:
    """No setting of ours, and a terminal so wide that no usage is broken into lines."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):  # noqa: TID251 - what the person who runs the tests has set
            if name.startswith(("CAPUCHIN_", "ANTHROPIC_")):
                patch.delenv(name)
        patch.setenv("COLUMNS", "5000")
        patch.setenv("NO_COLOR", "1")
        yield
