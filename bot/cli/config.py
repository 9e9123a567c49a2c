"""`capuchin config`: checks, prints and describes a repository's settings file."""

import argparse
import json
import sys
from pathlib import Path

import yaml

from bot.cli import FAILED, FIXED, USAGE, Subparsers
from bot.comments.settings_file import render_config_lines
from bot.repo_config.model import (
    CONFIG_PATHS,
    ConfigProblem,
    LayerProblem,
    RepoConfig,
    json_schema,
    list_settings,
    merge_layers,
    parse_config,
    parse_or_list_problems,
)
from bot.safe_text import printable


def register(subparsers: Subparsers) -> None:
    config = subparsers.add_parser("config")
    actions = config.add_subparsers(metavar="ACTION", required=True)
    where = " or ".join(CONFIG_PATHS)
    check = actions.add_parser("check", help="check files, and report where they are not valid")
    check.add_argument("files", nargs="*", type=Path, metavar="FILE", help=f"default: {where}")
    check.add_argument("--json", action="store_true", help="one JSON document")
    check.set_defaults(run=_check)
    show = actions.add_parser("show", help="print every setting with its effective value")
    show.add_argument("file", nargs="?", type=Path, metavar="FILE", help=f"default: {where}")
    show.add_argument(
        "--defaults", type=Path, metavar="FILE", help="the organisation's settings file"
    )
    show.add_argument("--explain", action="store_true", help="also print the source of each value")
    show.add_argument("--json", action="store_true", help="one JSON document")
    show.set_defaults(run=_show)
    actions.add_parser("schema", help="print the JSON Schema").set_defaults(run=_print_schema)


def _check(args: argparse.Namespace) -> int:
    files: list[Path | None] = [*args.files] or [None]
    found = [_read_file(file) for file in files]
    unread = [name for name, text in found if text is None]
    checked = [(name, parse_or_list_problems(text)) for name, text in found if text is not None]
    problems = {name: [] if isinstance(each, RepoConfig) else each for name, each in checked}
    if args.json:
        reports: list[dict[str, object]] = []
        for name, each in problems.items():
            listed = [one.model_dump() for one in each]
            first = listed[0] if listed else None
            reports.append(
                {"file": name, "valid": not listed, "problem": first, "problems": listed}
            )
        _print_json(reports[0] if len(files) == 1 and reports else reports)
    for name, each in problems.items():
        verdict = f"{name}: valid." if name else "No file: the defaults apply."
        for line in [_format_problem(name, one) for one in each] or [verdict]:
            _print_sentence(line, FIXED)
    for name in unread:
        _print_sentence(f"{name} cannot be read.", USAGE)
    return USAGE if unread else FAILED if any(problems.values()) else FIXED


def _show(args: argparse.Namespace) -> int:
    sources = [_read_file(args.defaults)] if args.defaults else []
    sources.append(_read_file(args.file))
    if unread := next((name for name, text in sources if text is None), None):
        return _print_sentence(f"{unread} cannot be read.", USAGE)
    found = merge_layers([(name, parse_config(text or "")) for name, text in sources if name])
    if isinstance(found, LayerProblem):
        all_found = parse_or_list_problems(dict(sources)[found.source] or "")
        for problem in all_found if isinstance(all_found, list) else [found.problem]:
            _print_sentence(_format_problem(found.source, problem), FAILED)
        return FAILED
    if args.explain:
        rows = list_settings(found)
        if args.json:
            _print_json([{"key": key, "value": json.loads(value), "from": source}
                    for key, value, source in rows])  # fmt: skip
        else:
            sys.stdout.write(render_config_lines(found))
    elif args.json:
        _print_json(found.config.model_dump(mode="json"))
    else:
        sys.stdout.write(yaml.safe_dump(found.config.model_dump(mode="json"), sort_keys=False))
    return FIXED


def _print_schema(args: argparse.Namespace) -> int:
    del args
    _print_json(json_schema())
    return FIXED


def _read_file(file: Path | None) -> tuple[str, str | None]:
    """The file's name and text; an empty name without a file, `None` if it cannot be read."""
    path = file or next((Path(name) for name in CONFIG_PATHS if Path(name).exists()), None)
    if path is None:
        return "", ""
    try:
        return str(path), path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return str(path), None


def _format_problem(name: str, problem: ConfigProblem) -> str:
    return f"{name}:{problem.line}:{problem.column}: {problem.message}"


def _print_json(document: object) -> None:
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def _print_sentence(sentence: str, code: int) -> int:
    sys.stderr.write(printable(sentence, one_line=True) + "\n")
    return code
