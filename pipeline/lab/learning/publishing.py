"""Data sets of Hugging Face's hub, in and out: the interpreter with the trainer reads and writes
parquet."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from pipeline.lab.dataset import BadData, read_lines
from pipeline.lab.learning.filtering import ROW_FILES, check_filtered
from pipeline.lab.learning.interpreter import find_interpreter, run_trainer
from pipeline.lab.learning.records import ISSUES, SolvedIssue
from pipeline.lab.render import table

INSTANCES = "instances.jsonl"
Sizes = Mapping[str, Mapping[str, tuple[int, int]]]
"""By kind and split: rows, and their bytes in memory."""


@contextmanager
def open_rows(path: Path, python: Path | None) -> Generator[Path]:
    """`path`, or the rows of a data set in Hugging Face's layout, a folder of parquet files or one,
    as JSON lines.

    Raises:
        BadData, TrainerFailed: `python` cannot be used, or cannot read it.
    """
    if not path.is_dir() and path.suffix != ".parquet":
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="capuchin-rows-") as scratch:
        rows = Path(scratch) / f"{path.name}.jsonl"
        run_trainer(find_interpreter(python), "unpack", [path, rows])
        yield rows


def publish(data: Path, out: Path, python: Path | None) -> Sizes:
    """Write filtered data as a data set with its card into the new folder `out`.

    Raises:
        BadData, TrainerFailed, OSError: `data` or `python` cannot be used, or `out` is not empty.
    """
    check_filtered(data)
    if out.exists() and any(out.iterdir()):
        raise BadData(f"{out} is not empty: give another --out.")
    with tempfile.TemporaryDirectory(prefix="capuchin-rows-") as scratch:
        rows, told = Path(scratch) / "rows", Path(scratch) / "sizes.json"
        rows.mkdir()
        for name in (*ROW_FILES.values(), INSTANCES):
            if (data / name).exists() and (data / name).stat().st_size:
                (rows / name).symlink_to((data / name).resolve())
        run_trainer(find_interpreter(python), "publish", [rows, out, told])
        sizes: Sizes = json.loads(told.read_text(encoding="utf-8"))
    issues = read_lines(data / ISSUES, SolvedIssue)
    (out / "README.md").write_text(render_card(sizes, issues), encoding="utf-8")
    return sizes


def render_card(sizes: Sizes, issues: Iterable[SolvedIssue]) -> str:
    """The data set's card. https://huggingface.co/docs/hub/datasets-cards"""
    counts = Counter((one.repository, one.licence) for one in issues)
    total = sum(rows for splits in sizes.values() for rows, _ in splits.values())
    head = {
        "license": sorted({licence.lower() for _, licence in counts}) or ["unknown"],
        "task_categories": ["text-generation"],
        "tags": ["code", "software-engineering"],
        "size_categories": [_find_category(total)],
        "configs": [
            {
                "config_name": kind,
                "data_files": [{"split": one, "path": f"{kind}/{one}-*"} for one in splits],
            }
            for kind, splits in sizes.items()
        ],
        "dataset_info": [
            {
                "config_name": kind,
                "splits": [
                    {"name": one, "num_bytes": size, "num_examples": rows}
                    for one, (rows, size) in splits.items()
                ],
            }
            for kind, splits in sizes.items()
        ],
    }
    lines = [
        f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n",
        "# Solved issues for training\n",
        "Made by `capuchin learn filter`. `policy` holds replies to imitate, `prm` files and "
        "places of edits with a verdict, `orm` pairs of a right and a wrong edit, `candidates` "
        "labelled edits, and `instances` a benchmark in SWE-bench's format. No repository is in "
        "both splits unless there is only one, training ends before the test begins, and near "
        "duplicates are left out.\n",
        *table(
            ("kind", "split", "rows"),
            [
                (kind, one, rows)
                for kind, splits in sizes.items()
                for one, (rows, _) in splits.items()
            ],
        ),
        "Issues and edits are their authors', under the licences of the repositories:\n",
        *table(
            ("repository", "licence", "issues"),
            [(name, licence, count) for (name, licence), count in sorted(counts.items())],
        ),
    ]
    return "\n".join(lines)


def _find_category(rows: int) -> str:
    """In the hub's words."""
    steps = ("1K", "10K", "100K", "1M", "10M", "100M", "1B")
    at = len(str(rows)) - 4
    return "n<1K" if at < 0 else f"{steps[at]}<n<{steps[at + 1]}"
