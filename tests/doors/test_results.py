"""What commands print as JSON, which files they leave, and how they end.

One run of `capuchin fix` is played before all tests, with a recorded model and a real sandbox.
"""

import json
import shutil
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.doors import shop
from tests.doors.internal import model
from tests.doors.outside import assert_expected, recorded, shape
from tests.support.command_line import Ended, here
from tests.support.data import local_git

LEFT: Final = [
    *(".capuchin", ".gitignore", "health.json", "report.json", "report.md", "run", "run.tar.zst")
]
"""What each run leaves in its folder; `run` is what it goes on from."""
INPUT: Final = ("--repo", "repo", "--issue", "issue.md")


class Desk:
    """A folder with a repository, an issue, edits of it and tests, and a model to ask."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self._env = env
        self.base = local_git.repository(folder / "repo", shop.FILES)
        for name, text in {
            "issue.md": f"{shop.TITLE}\n\n{shop.BODY}\n",
            "A.diff": shop.diff("return a + b"),
            "B.diff": shop.diff("return abs(a - b)"),
            "T.py": shop.SCRIPT,
        }.items():
            (folder / name).write_text(text, encoding="utf-8")

    def capuchin(self, *words: str, **env: str) -> Ended:
        """A command, in this folder."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**self._env, **env}.items():
                patch.setenv(name, value)
            return here(*words, cwd=self.folder)

    def files(self, folder: str) -> list[str]:
        """What is in a folder, but for clones that can be made again."""
        names = {path.name for path in (self.folder / folder).iterdir()}
        return sorted(names - {"mirrors"})

    def json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Generator[Desk]:
    with model() as url:
        yield Desk(tmp_path_factory.mktemp("desk"), recorded(url))


@pytest.fixture(scope="module")
def fixed(desk: Desk) -> Ended:
    """The run that the tests of this file look at; its folder is `out`."""
    return desk.capuchin("fix", *INPUT, "--out", "out", "--json")


def test_a_fix_ends_with_0_and_leaves_these_files(desk: Desk, fixed: Ended) -> None:
    assert fixed.code == 0, fixed.err
    written = ["candidates", "patch.diff", "reproduction_test.py", "test.diff"]
    assert desk.files("out") == sorted([*LEFT, *written])
    assert fixed.json == desk.json("out/report.json")
    assert fixed.json["environment"] == desk.json("out/health.json")
    patch = (desk.folder / "out/patch.diff").read_text()
    assert patch.startswith("diff --git a/shop/till.py b/shop/till.py\n")
    assert "def test_total_adds" in (desk.folder / "out/reproduction_test.py").read_text()


def test_the_report_of_a_fix_has_these_fields(desk: Desk, fixed: Ended) -> None:
    report = fixed.json
    assert_expected("report", shape(report))
    said = (report["format"], report["outcome"], report["base_commit"], report["recorded"])
    assert said == (1, "fix", desk.base, True)


def test_it_goes_on_with_the_same_folder_and_refuses_one_of_another_run(
    desk: Desk, fixed: Ended
) -> None:
    again = desk.capuchin("fix", *INPUT, "--out", "out", "--json")
    assert (again.code, again.json) == (0, fixed.json)
    (desk.folder / "other.md").write_text("Another issue\n")
    words = ("fix", "--repo", "repo", "--issue", "other.md", "--out", "out")
    assert desk.capuchin(*words).code == 2


def test_no_fix_ends_with_3_and_is_kept_in_this_folder(desk: Desk) -> None:
    local_git.repository(desk.folder / "pages", shop.WITHOUT_PYTHON)
    ended = desk.capuchin("fix", "--repo", "pages", "--issue", "issue.md", "--json")
    assert (ended.code, ended.json["outcome"]) == (3, "no fix")
    assert desk.files("capuchin-run") == [name for name in LEFT if name != "health.json"]
    assert_expected("report_no_fix", shape(ended.json))


def test_out_of_budget_ends_with_4(desk: Desk, fixed: Ended) -> None:
    ended = desk.capuchin("fix", *INPUT, "--out", "dear", "--budget", "0.0001", "--json")
    assert (ended.code, ended.json["outcome"]) == (4, "out of budget")
    assert desk.files("dear") == LEFT


def test_a_failure_ends_with_1_and_can_be_gone_on_with(desk: Desk) -> None:
    away = {"DOCKER_HOST": "unix:///nowhere.sock"}
    ended = desk.capuchin("fix", *INPUT, "--out", "failed", **away)
    assert (ended.code, ended.out) == (1, "")
    assert "run" in desk.files("failed")


def test_a_bundle_is_replayed_with_these_fields_and_exit_codes(desk: Desk, fixed: Ended) -> None:
    same = desk.capuchin("replay", "out/run.tar.zst", "--json")
    assert same.code == 0
    assert_expected("replay", shape(same.json))
    assert (same.json["equal"], same.json["chosen"]) == (True, same.json["recorded"])
    other = desk.capuchin("replay", "out/run.tar.zst", "--selection", "voting", "--json")
    assert (other.code, other.json["method"], other.json["equal"]) == (0, "voting", None)


def test_select_leaves_these_files_and_its_report_these_fields(desk: Desk) -> None:
    words = ("--patch", "A.diff", "--patch", "B.diff", "--test", "T.py", "--json")
    ended = desk.capuchin("select", *INPUT, *words, "--out", "selected")
    assert ended.code == 0, ended.err
    assert desk.files("selected") == sorted([*LEFT, "patch.diff"])
    assert ended.json == desk.json("selected/report.json")
    assert (ended.json["outcome"], ended.json["order"][0]) == ("fix", "A.diff")
    assert_expected("report_select", shape(ended.json))


def lines(file: Path, rows: list[dict[str, str]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def instances(desk: Desk, repository: str) -> None:
    facts = {"problem_statement": shop.BODY, "base_commit": desk.base}
    edit = shop.diff("return a + b")
    row = {"instance_id": "one", "repo": repository, "patch": edit, **facts}
    lines(desk.folder / "instances.jsonl", [row, {**row, "instance_id": "two", "repo": "b/b"}])


def test_predictions_are_evaluated_with_these_fields_and_files(desk: Desk) -> None:
    instances(desk, "a/a")
    folder = desk.folder / "predictions"
    folder.mkdir()
    for member, text in {"alpha": "return a + b", "beta": "return a - 1"}.items():
        row = {"model_name_or_path": member, "model_patch": shop.diff(text)}
        rows = [{**row, "instance_id": name} for name in ("one", "two")]
        lines(folder / f"{member}.jsonl", rows)
    labels = json.dumps({"alpha": ["one"], "beta": ["two"]})
    (desk.folder / "labels.json").write_text(labels)
    (desk.folder / "ensembles.json").write_text('{"both": ["alpha", "beta"]}')
    given = ("--predictions", "predictions", "--labels", "labels.json")
    more = ("--ensemble", "ensembles.json:both", "--out", "evaluated", "--json")
    ended = desk.capuchin("evaluate", "instances.jsonl", *given, *more)
    assert ended.code == 0, ended.err
    found = {"json": shape(ended.json), "files": desk.files("evaluated")}
    assert_expected("evaluate_predictions", found)
    blocked = desk.capuchin("evaluate", "instances.jsonl", *given, "--out", "labels.json")
    assert blocked.code == 1


def test_runs_are_evaluated_with_these_fields_and_files(desk: Desk, fixed: Ended) -> None:
    """Their labels are looked for beside them."""
    instances(desk, "a/a")
    (desk.folder / "runs").mkdir()
    shutil.copy(desk.folder / "out/run.tar.zst", desk.folder / "runs/one.tar.zst")
    (desk.folder / "runs/labels.json").write_text('{"one": [1]}')
    words = ("--runs", "runs", "--out", "evaluated-runs", "--json")
    ended = desk.capuchin("evaluate", "instances.jsonl", *words)
    assert ended.code == 0, ended.err
    found = {"json": shape(ended.json), "files": desk.files("evaluated-runs")}
    assert_expected("evaluate_runs", found)


def test_recall_is_measured_with_these_fields_and_files(desk: Desk) -> None:
    instances(desk, "a/shop")
    local_git.git(desk.folder, "clone", "--quiet", "--bare", "repo", "trees/a__shop.git")
    words = ("--trees", "trees", "--out", "recalled", "--json")
    ended = desk.capuchin("evaluate", "instances.jsonl", *words)
    assert ended.code == 0, ended.err
    assert_expected("recall", {"json": shape(ended.json), "files": desk.files("recalled")})
    assert ended.json == desk.json("recalled/recall.json")


def test_config_and_doctor_print_these_fields(desk: Desk) -> None:
    (desk.folder / "wrong.yml").write_text("sampels: 1\n")
    (desk.folder / "right.yml").write_text("samples: 1\n")
    away = {"DOCKER_HOST": "unix:///nowhere.sock"}
    redis = "redis://127.0.0.1:9/0"
    doctor = desk.capuchin("doctor", "--json", CAPUCHIN_REDIS_URL=redis, **away)
    assert (doctor.code, doctor.json["works"]) == (1, False)
    documents = {
        "config check": desk.capuchin("config", "check", "--json", "wrong.yml").json,
        "config check of two": desk.capuchin(
            "config", "check", "--json", "wrong.yml", "right.yml"
        ).json,
        "config show --explain": desk.capuchin(
            "config", "show", "--explain", "--json", "right.yml"
        ).json,
        "doctor": doctor.json,
    }
    assert_expected("documents", {name: shape(each) for name, each in documents.items()})
    explained = documents["config show --explain"]
    assert [row["from"] for row in explained if row["key"] == "samples"] == ["right.yml"]
