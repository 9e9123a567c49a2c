"""Data sets in the layout of Hugging Face's hub."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from pipeline.lab.learning.filtering import to_instance
from pipeline.lab.learning.records import index_attempts, read_group, read_issues, write_rows
from sandbox.frozen import replace
from tests.support.command_line import done, refused
from tests.support.data.diffs import diff_of
from tests.support.data.learning_rows import APART, ROWS, write_learning_rows

PATCH = diff_of("a = 1\nb = 1\n", "a = 2\nb = 1\n", "m.py")
WRONG = diff_of("a = 1\nb = 1\n", "a = 3\nb = 1\n", "m.py")


def write_parquet(files: dict[Path, list[dict[str, Any]]]) -> None:
    for path, rows in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(rows).write_parquet(path)


def instance(name: str, **more: object) -> dict[str, Any]:
    return {
        "instance_id": name,
        "repo": "acme/shop",
        "problem_statement": f"Wrong total in {name}\n\nIt subtracts.",
        "patch": PATCH,
        "FAIL_TO_PASS": ["tests/test_m.py::test_a"],
        "PASS_TO_PASS": [],
        **more,
    }


def test_public_data_sets_are_read_as_they_lie_on_the_hub(tmp_path: Path) -> None:
    """The fields of SWE-Gym, SWE-rebench and SWE-smith, and of runs on each of them."""
    gym, rebench, smith, runs = (tmp_path / name for name in ("gym", "rebench", "smith", "runs"))
    told = {"test_patch": PATCH, "base_commit": "a" * 40}
    dated = instance(
        "r-1", license_name="MIT", created_at=datetime(2023, 11, 14, tzinfo=UTC), **told
    )
    messages = [{"role": "user", "content": "Mend it."}]
    solved = {"resolved": True, "messages": "[]"}
    write_parquet(
        {
            gym / "data/train-00000-of-00002.parquet": [instance("g-1", version="1", **told)],
            gym / "data/train-00001-of-00002.parquet": [instance("g-2", version="1", **told)],
            rebench / "data/test-00000-of-00001.parquet": [dated],
            rebench / "data/filtered-00000-of-00001.parquet": [dated],
            smith / "data/train-00000-of-00001.parquet": [instance("s-1", image_name="i")],
            runs / "gym/train.raw-00000-of-00001.parquet": [
                {"instance_id": "g-1", "run_id": "c", "test_result": {"git_patch": PATCH}, **solved}
            ],
            runs / "rebench/0000.parquet": [
                {"instance_id": "r-1", "trajectory_id": "b", "trajectory": messages,
                 "model_patch": WRONG, "resolved": 0},
                {"instance_id": "r-1", "trajectory_id": "e", "trajectory": messages,
                 "model_patch": "", "resolved": 0},
            ],
            runs / "smith/tool.parquet": [
                {"instance_id": "s-1", "traj_id": "a", "model": "m", "patch": PATCH, **solved}
            ],
            runs / "agent/0000.parquet": [
                {"instance_id": "x-1", "model_name": "m", "target": True,
                 "generated_patch": PATCH},
                {"instance_id": "g-2", "model_name": "m", "target": True,
                 "generated_patch": PATCH},
            ],
        },
    )  # fmt: skip
    data = tmp_path / "data"
    words = ["learn", "collect", str(data)]
    for source in (gym, rebench, smith / "data/train-00000-of-00001.parquet"):
        done(*words, "--instances", str(source))
    issues = read_issues(data)
    assert set(issues) == {"g-1", "g-2", "r-1", "s-1"}
    assert (issues["r-1"].licence, issues["r-1"].closed[:10]) == ("MIT", "2023-11-14")
    assert issues["g-1"].fail_to_pass == ("tests/test_m.py::test_a",)
    assert "+a = 1" in issues["s-1"].reference, "its patch makes the bug"

    said = done(*words, "--trajectories", str(runs)).out
    assert "4 attempts taken" in said
    assert "1 left out: its issue is not collected" in said
    found = [one for place in index_attempts(data).values() for one in read_group(data, place)]
    assert {(one.issue, one.source.partition(" ")[0], one.resolved) for one in found} == {
        ("g-1", "trajectory", True),
        ("g-2", "m", True),
        ("r-1", "trajectory", False),
        ("s-1", "m", True),
    }
    assert refused(*words, "--instances", str(tmp_path / "data")), "it holds no parquet"
    silent = instance("n-1", problem_statement=" ", **told)
    other = {"problem_statement": "x", "messages": "[]"}
    write_parquet({tmp_path / "silent.parquet": [silent], tmp_path / "other.parquet": [other]})
    assert "1 left out" in done(*words, "--instances", str(tmp_path / "silent.parquet")).out
    for kind in ("--instances", "--trajectories"):
        said = refused(*words, kind, str(tmp_path / "other.parquet"))
        assert "no column instance_id" in said


def test_rows_are_published_with_a_card_and_loaded_again(tmp_path: Path) -> None:
    rows, out = tmp_path / "rows", tmp_path / "published"
    issues = write_learning_rows(rows).issues
    solved = replace(
        issues[0], base_commit="a" * 40, tests=PATCH, fail_to_pass=("t::a",), pass_to_pass=()
    )
    write_rows(rows / "instances.jsonl", [to_instance(solved)])
    words = ["learn", "publish", str(rows), "--out", str(out)]
    done(*words)
    assert refused(*words), "it overwrites nothing"
    kinds = ["policy", "prm", "orm", "candidates", "instances"]
    found = {
        kind: {
            file.name.partition("-")[0]: pl.read_parquet(file)
            for file in sorted((out / kind).iterdir())
        }
        for kind in kinds
    }
    sides = {"train": ROWS, "test": APART}
    assert {k: {side: len(rows) for side, rows in one.items()} for k, one in found.items()} == {
        **dict.fromkeys(kinds[:3], sides),
        "candidates": {side: 2 * count for side, count in sides.items()},
        "instances": {"test": 1},
    }
    assert found["orm"]["train"]["chosen"][0][0]["role"] == "assistant"
    assert sorted(found["candidates"]["test"]["right"]) == [False] * APART + [True] * APART
    head = yaml.safe_load((out / "README.md").read_text().split("---\n")[1])
    assert head["size_categories"] == ["n<1K"]
    assert head["license"] == ["unknown"]
    given = ["--instances", str(out / "instances")]
    done("learn", "collect", str(tmp_path / "again"), *given)
    assert read_issues(tmp_path / "again").keys() == {solved.id}
