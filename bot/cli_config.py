"""`capuchin config`: the repository's settings file, checked, shown and described."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final, TypeVar

import yaml

from bot.repo_config import CANDIDATES, ConfigProblem, RepoConfig, parse

Parser = TypeVar("Parser", bound=argparse.ArgumentParser)

DONE: Final = 0
INVALID: Final = 1
USAGE: Final = 2


def register(subparsers: argparse._SubParsersAction[Parser]) -> None:  # pyright: ignore[reportPrivateUsage] - argparse names its type so
    """Adds the command to `capuchin`."""
    config = subparsers.add_parser("config", help="a repository's settings file")
    actions = config.add_subparsers(metavar="ACTION", required=True)
    for name, run, text in (
        ("check", _check, "say whether the file is valid, and where it is not"),
        ("show", _show, "print every setting as it would be used"),
    ):
        action = actions.add_parser(name, help=text)
        where = " or ".join(CANDIDATES)
        action.add_argument("file", nargs="?", type=Path, metavar="FILE", help=f"default: {where}")
        action.add_argument("--json", action="store_true", help="one JSON document")
        action.set_defaults(run=run)
    actions.add_parser("schema", help="print the JSON Schema").set_defaults(run=_schema)


def _check(args: argparse.Namespace) -> int:
    name, text = _found(args.file)
    if text is None:
        return _say(f"{name} cannot be read.", USAGE)
    found = parse(text)
    problem = found if isinstance(found, ConfigProblem) else None
    if args.json:
        _print({"file": name, "valid": not problem, "problem": problem and problem.model_dump()})
    if problem:
        return _say(f"{name}:{problem.line}:{problem.column}: {problem.message}", INVALID)
    return _say(f"{name}: valid." if name else "No file: the defaults apply.", DONE)


def _show(args: argparse.Namespace) -> int:
    name, text = _found(args.file)
    if text is None:
        return _say(f"{name} cannot be read.", USAGE)
    found = parse(text)
    if isinstance(found, ConfigProblem):
        return _say(f"{name}:{found.line}:{found.column}: {found.message}", INVALID)
    if args.json:
        _print(found.model_dump(mode="json"))
    else:
        sys.stdout.write(yaml.safe_dump(found.model_dump(mode="json"), sort_keys=False))
    return DONE


def _schema(args: argparse.Namespace) -> int:
    del args
    _print(RepoConfig.model_json_schema())
    return DONE


def _found(file: Path | None) -> tuple[str, str | None]:
    """The file's name and text; no name when there is none, no text when it cannot be read."""
    path = file or next((Path(name) for name in CANDIDATES if Path(name).exists()), None)
    if path is None:
        return "", ""
    try:
        return str(path), path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return str(path), None


def _print(document: object) -> None:
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def _say(sentence: str, code: int) -> int:
    sys.stderr.write(sentence + "\n")
    return code
