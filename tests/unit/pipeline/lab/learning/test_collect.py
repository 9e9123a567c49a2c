"""Which pull requests are collected, and how a clone's history shows them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bot.cli import main
from pipeline.codebase.unified_diff import parse_diff
from pipeline.lab.dataset import read_lines
from pipeline.lab.learning.collect import (
    IssueRow,
    explain_exclusion,
    identify_licence,
    read_history,
)
from pipeline.lab.learning.records import read_data
from tests.support.data.diffs import diff_of
from tests.support.data.repositories import add_commit, make_repository

CODE, TESTS = diff_of("a\n", "b\n", "shop/a.py"), diff_of("a\n", "b\n", "tests/test_a.py")
BODY = "It subtracts where it should add."


@pytest.mark.parametrize(
    ("body", "diff", "why"),
    [
        (BODY, CODE + TESTS, ""),
        ("short", CODE, "the issue has fewer than 20 characters"),
        ("see https://a.b " * 3 + BODY, CODE, ""),
        ("see https://a.b " * 4 + BODY, CODE, "the issue has more than 3 links"),
        (BODY, TESTS, "the edit changes tests alone"),
        (BODY, diff_of("a\n", "b\n", "docs/a.md"), "the edit changes no code"),
        (BODY, "".join(diff_of("a\n", "b\n", f"shop/{n}.py") for n in range(5)) + TESTS, ""),
        (
            BODY,
            "".join(diff_of("a\n", "b\n", f"shop/{n}.py") for n in range(6)),
            "the edit changes more than 5 code files",
        ),
    ],
)
def test_the_rules_of_the_paper(body: str, diff: str, why: str) -> None:
    assert explain_exclusion("", body, parse_diff(diff)) == why


def test_licences_are_recognised() -> None:
    mit = "MIT License\n\nPermission is hereby granted, free\nof charge, to any person"
    assert identify_licence(mit) == "MIT"
    assert identify_licence("All rights reserved.") == "unknown"


async def test_a_history_gives_edit_base_tests_and_licence(tmp_path: Path) -> None:
    clone = tmp_path / "trees/acme__shop.git"
    licence = "Apache License\nVersion 2.0"
    files = {"shop/a.py": "a\n", "tests/test_a.py": "a\n", "LICENSE": licence}
    base = await make_repository(clone, files)
    await add_commit(clone, {"shop/a.py": "b\n", "tests/test_a.py": "b\n"}, "Add. Fixes #12")
    rows = [
        {"repository": "acme/shop", "number": number, "title": "Wrong sum", "body": BODY}
        for number in (12, 13)
    ]
    issues = tmp_path / "issues.jsonl"
    issues.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data, report = await read_history(read_lines(issues, IssueRow), tmp_path / "trees")
    (one,) = data.issues
    assert (one.id, one.base_commit, one.licence) == ("acme__shop-12", base, "Apache-2.0")
    assert [file.path for file in parse_diff(one.reference)] == ["shop/a.py"]
    assert [file.path for file in parse_diff(one.tests)] == ["tests/test_a.py"]
    assert one.closed.startswith("2023-11-14")
    assert dict(report.left_out) == {"no commit says that it closes the issue": 1}


def test_pulls_are_collected_once_and_damage_is_noticed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {
        "repository": "acme/shop",
        "issue": {"number": 3, "title": "Wrong sum", "body": BODY},
        "base_commit": "a" * 40,
        "merged_at": "2024-01-01T00:00:00Z",
        "patch": CODE + TESTS,
        "licence": "MIT",
    }
    pulls, folder = tmp_path / "pulls.jsonl", tmp_path / "data"
    pulls.write_text(json.dumps(row) + "\n")
    for _ in range(2):
        assert main(["learn", "collect", str(folder), "--pulls", str(pulls)]) == 0
    assert "holds 1 solved issue and 0 attempts" in capsys.readouterr().out
    assert read_data(folder).issues[0].licence == "MIT"
    (folder / "issues.jsonl").write_text("{}\n")
    assert main(["learn", "filter", str(folder), "--out", str(tmp_path / "rows")]) == 2
    assert "is damaged" in capsys.readouterr().err
