"""`capuchin config`: the repository's settings file, checked, shown and described."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

import yaml

from bot.cli import Commands
from bot.cli.terminal import printable
from bot.comments.config import as_lines
from bot.repo_config.layers import Layer, LayerProblem, combined, settings
from bot.repo_config.model import CANDIDATES, ConfigProblem, parse
from bot.repo_config.schema import schema

DONE: Final = 0
INVALID: Final = 1
USAGE: Final = 2


def register(subparsers: Commands) -> None:
    """Adds the command to `capuchin`."""
    config = subparsers.add_parser("config", help="a repository's settings file")
    actions = config.add_subparsers(metavar="ACTION", required=True)
    where = " or ".join(CANDIDATES)
    check = actions.add_parser("check", help="say whether files are valid, and where they are not")
    check.add_argument("files", nargs="*", type=Path, metavar="FILE", help=f"default: {where}")
    check.add_argument("--json", action="store_true", help="one JSON document")
    check.set_defaults(run=_check)
    show = actions.add_parser("show", help="print every setting as it would be used")
    show.add_argument("file", nargs="?", type=Path, metavar="FILE", help=f"default: {where}")
    show.add_argument(
        "--defaults", type=Path, metavar="FILE", help="the file of the organisation's .github"
    )
    show.add_argument("--explain", action="store_true", help="say which file each value is from")
    show.add_argument("--json", action="store_true", help="one JSON document")
    show.set_defaults(run=_show)
    actions.add_parser("schema", help="print the JSON Schema").set_defaults(run=_schema)


def _check(args: argparse.Namespace) -> int:
    files: list[Path | None] = [*args.files] or [None]
    found = [_found(file) for file in files]
    if unread := next((name for name, text in found if text is None), None):
        return _say(f"{unread} cannot be read.", USAGE)
    checked = [(name, parse(text or "")) for name, text in found]
    problems = {name: each for name, each in checked if isinstance(each, ConfigProblem)}
    if args.json:
        reports = [_report(name, problems.get(name)) for name, _ in checked]
        _print(reports[0] if len(reports) == 1 else reports)
    for name, _ in checked:
        said = "valid." if name else "No file: the defaults apply."
        problem = problems.get(name)
        _say(_placed(name, problem) if problem else f"{name}: {said}" if name else said, DONE)
    return INVALID if problems else DONE


def _show(args: argparse.Namespace) -> int:
    wanted = [_found(args.defaults)] if args.defaults else []
    wanted.append(_found(args.file))
    if unread := next((name for name, text in wanted if text is None), None):
        return _say(f"{unread} cannot be read.", USAGE)
    found = combined([Layer(name, text or "") for name, text in wanted if name])
    if isinstance(found, LayerProblem):
        return _say(_placed(found.source, found.problem), INVALID)
    if args.explain:
        rows = settings(found)
        if args.json:
            _print([{"key": key, "value": json.loads(value), "from": source}
                    for key, value, source in rows])  # fmt: skip
        else:
            sys.stdout.write(as_lines(found))
    elif args.json:
        _print(found.config.model_dump(mode="json"))
    else:
        sys.stdout.write(yaml.safe_dump(found.config.model_dump(mode="json"), sort_keys=False))
    return DONE


def _schema(args: argparse.Namespace) -> int:
    del args
    _print(schema())
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


def _report(name: str, problem: ConfigProblem | None) -> dict[str, object]:
    return {"file": name, "valid": not problem, "problem": problem and problem.model_dump()}


def _placed(name: str, problem: ConfigProblem) -> str:
    return f"{name}:{problem.line}:{problem.column}: {problem.message}"


def _print(document: object) -> None:
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def _say(sentence: str, code: int) -> int:
    sys.stderr.write(printable(sentence, one_line=True) + "\n")
    return code
