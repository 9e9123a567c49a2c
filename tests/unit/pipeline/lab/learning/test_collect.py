"""Which pull requests are collected, and how a clone's history shows them."""

import asyncio
import json
from pathlib import Path

import pytest

from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import git
from pipeline.codebase.unified_diff import parse_diff
from pipeline.edits.patches import read_patched
from pipeline.lab.dataset import read_lines
from pipeline.lab.learning.collect import (
    IssueRow,
    explain_exclusion,
    identify_licence,
    read_history,
)
from pipeline.lab.learning.records import read_issues
from tests.support.command_line import done, refused
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


def test_issues_are_collected_once_and_damage_is_noticed(tmp_path: Path) -> None:
    row = {
        "instance_id": "acme__shop-3", "repo": "acme/shop", "base_commit": "a" * 40, "patch": CODE,
        "problem_statement": f"Wrong sum\n{BODY}",
    }  # fmt: skip
    rows, folder = tmp_path / "rows.jsonl", tmp_path / "data"
    rows.write_text(json.dumps(row) + "\n")
    for _ in range(2):
        said = done("learn", "collect", str(folder), "--instances", str(rows)).out
        assert "holds 1 solved issue and 0 attempts" in said
    (folder / "issues.jsonl").write_text("{}\n")
    said = refused("learn", "filter", str(folder), "--out", str(tmp_path / "rows"))
    assert "is damaged" in said


async def test_rows_of_swe_rebench_and_of_swe_smith_are_solved_issues(tmp_path: Path) -> None:
    clone = tmp_path / "trees/acme__shop.1a2b.git"
    text = "".join(f"line {n}\n" for n in range(40))
    spoilt = text.replace("line 3\n", "").replace("line 30\n", "wrong\nmore\n")
    commit = await make_repository(clone, {"shop/a.py": spoilt})
    await git(clone, "branch", "acme__shop.1a2b.func__x9", commit)
    rebench = {
        "instance_id": "acme__shop-3", "repo": "acme/shop", "base_commit": "a" * 40, "patch": CODE,
        "test_patch": TESTS, "problem_statement": f"Wrong sum\n{BODY}", "license_name": "MIT",
        "FAIL_TO_PASS": ["tests/test_a.py::test_a"], "PASS_TO_PASS": [], "version": "1.0",
        "created_at": "2024-01-01T00:00:00Z", "docker_image": "none/such",
    }  # fmt: skip
    smith = {
        "instance_id": "acme__shop.1a2b.func__x9", "repo": "swesmith/acme__shop.1a2b",
        "patch": diff_of(text, spoilt, "shop/a.py"), "problem_statement": f"Wrong line\n{BODY}",
        "FAIL_TO_PASS": ["tests/test_a.py::test_a"], "PASS_TO_PASS": [], "image_name": "none/such",
    }  # fmt: skip
    rows, data = tmp_path / "rows.jsonl", tmp_path / "data"
    rows.write_text("".join(json.dumps(row) + "\n" for row in (rebench, smith)))
    words = ["--instances", str(rows), "--trees", str(tmp_path / "trees")]
    collected = await asyncio.to_thread(done, "learn", "collect", str(data), *words)
    assert "holds 2 solved issues" in collected.out
    plain, made = read_issues(data).values()
    assert (plain.licence, plain.reference, plain.closed) == ("MIT", CODE, rebench["created_at"])
    assert plain.fail_to_pass == made.fail_to_pass == ("tests/test_a.py::test_a",)
    assert made.base_commit == commit
    patched = await read_patched(await Codebase.open(clone, commit), made.reference)
    mended = patched["shop/a.py"]
    assert mended is not None
    assert mended.content.decode() == text, "its patch makes the bug; the reference undoes it"
