"""The variables that tox, nox or CI set for the tests, read without running any of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from pipeline.languages.manifests import entries, parse_yaml, strings, table
from pipeline.languages.python.ci import NOT_TESTS, RUNS_TESTS, WORKFLOW, script_lines
from pipeline.languages.python.tox_nox import find_session, read_tox, tox_settings
from sandbox.layout import CHECKOUT

_NAME: Final = re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII)
_NOT_OURS: Final = re.compile(
    r"PATH|HOME|VIRTUAL_ENV|PYTHONHASHSEED|CI|.*COLOR.*|.*_PROXY|(?:LD|PIP|UV|TOX|NOX|COV|COVERAGE"
    r"|GITHUB|RUNNER|CODECOV|CAPUCHIN|POETRY)_.*",
    re.IGNORECASE,
)
"""Variables of the tools that start the tests, and of the sandbox."""
_OF_SERVICE: Final = re.compile(r"://|.*(?:HOST|URL|URI|DSN|PORT|USER|PASSWORD|TOKEN|SECRET|KEY)$")
"""What CI says of its services, which the sandbox lacks."""
_ROOT: Final = re.compile(r"\{(?:toxinidir|tox_root)\}")
_DEFAULT: Final = re.compile(r"\{env:\w+(?::([^{}]*))?\}")
_LONGEST: Final = 2000


def find_variables(texts: Mapping[str, str]) -> dict[str, str]:
    """The variables with a literal value; tox's word before nox's, and that before CI's."""
    found: dict[str, str] = {}
    for name, value in (*_of_tox(texts), *_of_nox(texts), *_of_ci(texts)):
        if _NAME.fullmatch(name) and not _NOT_OURS.fullmatch(name) and len(value) <= _LONGEST:
            found.setdefault(name, value)
    return found


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


def _of_nox(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """`session.env["A"] = "b"`, and the `env` of `session.run`."""
    for node in ast.walk(found) if (found := find_session(texts)) else ():
        match node:
            case ast.Assign(
                targets=[ast.Subscript(ast.Attribute(attr="env"), ast.Constant(str(name)))],
                value=ast.Constant(str(value)),
            ):
                yield name, value
            case ast.keyword(arg="env", value=ast.Dict(keys=keys, values=values)):
                for key, one in zip(keys, values, strict=True):
                    match key, one:
                        case ast.Constant(str(name)), ast.Constant(str(value)):
                            yield name, value
                        case _:
                            pass
            case _:
                pass


def _of_ci(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The variables of the first job on GitHub that runs the tests."""
    for path in sorted(filter(WORKFLOW.fullmatch, texts)):
        document = parse_yaml(texts[path])
        for name, job in entries(document.get("jobs")).items():
            steps: Any = entries(job).get("steps")
            testing = [
                step
                for step in map(entries, cast(list[Any], steps) if isinstance(steps, list) else ())
                if any(RUNS_TESTS.search(line) for line in script_lines(step.get("run")))
            ]
            if testing and not NOT_TESTS.search(f"{path.rpartition('/')[2]} {name}"):
                for one in (testing[0], entries(job), document):
                    for key, value in entries(one.get("env")).items():
                        literal = strings([value])
                        if literal and "${{" not in literal[0] and not _is_of_service(key, value):
                            yield key, literal[0]
                return


def _is_of_service(name: str, value: str) -> bool:
    return bool(_OF_SERVICE.match(name.upper()) or "://" in value)
