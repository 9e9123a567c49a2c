"""A small set of instances, predictions and labels with known answers, as files."""

import gzip
import json
from pathlib import Path

from tests.support.data.diffs import diff_of

BASE = "def f(a):\n    return a\n"


def edit(line: str) -> str:
    return diff_of(BASE, BASE.replace("return a", line), "shop/f.py")


RIGHT, SAME, WRONG, OTHER = (
    edit(line) for line in ("return a + 1", "return a+1  # so", "return a - 1", "raise Wrong(a)")
)
PATCHES = {
    # one: two equal right edits against a wrong one. two: all differ. three: nobody has any.
    "alpha": {"one": RIGHT, "two": RIGHT, "four": WRONG},
    "beta": {"one": SAME, "two": WRONG, "four": RIGHT},
    "gamma": {"one": WRONG, "two": OTHER, "four": WRONG},
}
LABELS = {"alpha": ["one", "two"], "beta": ["one", "four"], "gamma": []}
REPOS = {"one": "a/a", "two": "b/b", "three": "c/c", "four": "c/c"}


class Files:
    """The files under one folder; each can be spoiled."""

    def __init__(self, folder: Path) -> None:
        self.instances = folder / "instances.jsonl.gz"
        self.predictions = folder / "predictions"
        self.labels = folder / "labels.json"
        self.ensembles = folder / "ensembles.json"
        rows = [{"instance_id": i, "repo": r, "problem_statement": "f"} for i, r in REPOS.items()]
        self.instances.write_bytes(gzip.compress(lines(rows)))
        self.predictions.mkdir()
        for member, patches in PATCHES.items():
            self.predict(member, patches)
        self.labels.write_text(json.dumps(LABELS))
        self.ensembles.write_text(json.dumps({"two": ["alpha", "gamma"], "odd": ["delta"]}))

    def predict(self, member: str, patches: dict[str, str]) -> None:
        rows = [
            {"instance_id": i, "model_name_or_path": member, "model_patch": patches.get(i, "")}
            for i in REPOS
        ]
        (self.predictions / f"{member}.jsonl").write_bytes(lines(rows))

    def arguments(self) -> list[str]:
        return [
            "evaluate", str(self.instances), "--predictions", str(self.predictions),
            "--labels", str(self.labels),
        ]  # fmt: skip


def lines(rows: list[dict[str, str]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()
