"""Prints what each feature is worth to the choice, as docs/evaluation.md shows it.

    python -m tests.benchmarks.fitting.ablate INSTANCES PREDICTIONS LABELS ENSEMBLES

Each row leaves one out, with the shipped weights of the others; each repository is scored with
weights fitted without it.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pipeline.lab.dataset import Dataset, read_dataset
from pipeline.lab.predictions import METHODS, CaseBuilder, EnsembleCase, chance_of_right
from pipeline.lab.render import table
from pipeline.lab.scoring import percent
from pipeline.selection.scoring.confidence import Weights, choose, load_shipped_model, weights_for

GROUPS: Mapping[str, tuple[str, ...]] = {
    "similarity": ("similarity",),
    "tests, documents and scripts beside the fix": ("tests", "irrelevant_files"),
}
"""By name: how the names of the features begin."""
_PYTHON_FILE = re.compile(r"(?m)^((?:diff|---|\+\+\+|rename) .*?)\.py\b")


def leave_out(prefixes: tuple[str, ...], case: EnsembleCase) -> Sequence[int]:
    """The choice of the fitted ranking without some features."""
    rank = weights_for(case.instance.repo).rank
    kept = {name: 0.0 if name.startswith(prefixes) else weight for name, weight in rank.items()}
    return choose(case.evidence, Weights(rank=kept, probability={}))


def forget_syntax(data: Dataset) -> Dataset:
    """The same edits, in files of no known language."""
    patches = {
        member: {name: _PYTHON_FILE.sub(r"\1.xy", diff) for name, diff in some.items()}
        for member, some in data.patches.items()
    }
    return replace(data, patches=patches)


def score(data: Dataset) -> dict[str, float]:
    """The score in per cent by row."""
    cases = CaseBuilder(data).build_all()

    def average(method: Callable[[EnsembleCase], Sequence[int]]) -> float:
        return percent([chance_of_right(case, method) for case in cases])

    found = {name: average(method) for name, method in METHODS.items()}
    whole = load_shipped_model().fit.whole.rank
    features = {f"`{name}`": (name,) for name, weight in whole.items() if weight}
    for name, prefixes in {**features, **GROUPS}.items():
        found[f"without {name}"] = average(partial(leave_out, prefixes))
    return found


def main() -> int:
    instances, predictions, labels, ensembles = map(Path, sys.argv[1:5])
    columns: list[dict[str, float]] = []
    names = list(json.loads(ensembles.read_text(encoding="utf-8")))
    for name in names:
        data = read_dataset(instances, predictions, labels, f"{ensembles}:{name}")
        plain = score(forget_syntax(data))["confidence"]
        columns.append({**score(data), "without syntax (edits as plain text)": plain})
    rows = [
        (row, *(f"{one[row]:.1f} ({one[row] - one['confidence']:+.1f})" for one in columns))
        for row in columns[0]
    ]
    print("\n".join(table(("", *names), rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
