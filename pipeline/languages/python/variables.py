"""The variables that tox or CI set for the tests, read without running any of them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pipeline.languages.ci import jobs_of, keep_ours
from pipeline.languages.manifests import table
from pipeline.languages.python.ci import RUNS_TESTS
from pipeline.languages.python.tox_nox import read_tox, tox_settings
from sandbox.layout import CHECKOUT

_ROOT: Final = re.compile(r"\{(?:toxinidir|tox_root)\}")
_DEFAULT: Final = re.compile(r"\{env:\w+(?::([^{}]*))?\}")


def find_variables(texts: Mapping[str, str]) -> dict[str, str]:
    """The variables with a literal value; tox's word before CI's."""
    of_ci = next(filter(None, (job.env.items() for job in jobs_of(texts, RUNS_TESTS))), ())
    return keep_ours((*_of_tox(texts), *of_ci))


def _of_tox(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """https://tox.wiki/en/latest/config.html#set_env"""
    lines = list(tox_settings(texts, "setenv")) or list(tox_settings(texts, "set_env"))
    pairs = [line.partition("=")[::2] for line in lines]
    stated: Any = table(read_tox(texts), "env_run_base", "set_env")
    pairs += [(name, value) for name, value in stated.items() if isinstance(value, str)]
    for name, value in pairs:
        text = _DEFAULT.sub(lambda match: match[1] or "", _ROOT.sub(CHECKOUT, value.strip()))
        if "{" not in text:
            yield name.strip(), text
