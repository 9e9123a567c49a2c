"""Training rows as a data set for Hugging Face's hub."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from pipeline.lab.dataset import BadData, read_lines
from pipeline.lab.learning.filtering import ROW_FILES, check_filtered, read_warning
from pipeline.lab.learning.records import ISSUES, SolvedIssue
from pipeline.lab.render import table

INSTANCES = "instances.jsonl"
Sizes = Mapping[str, Mapping[str, int]]
"""Rows by kind and split."""


def publish(data: Path, out: Path) -> Sizes:
    """Write filtered data as a data set with its card into the new folder `out`.

    Raises:
        BadData, OSError: `data` cannot be used, or `out` is not empty.
    """
    check_filtered(data)
    if out.exists() and any(out.iterdir()):
        raise BadData(f"{out} is not empty: give another --out.")
    files = [data / name for name in (*ROW_FILES.values(), INSTANCES)]
    sizes = {
        file.stem: _write_kind(file, out / file.stem)
        for file in files
        if file.exists() and file.stat().st_size
    }
    issues = read_lines(data / ISSUES, SolvedIssue)
    card = render_card(sizes, issues, read_warning(data))
    (out / "README.md").write_text(card, encoding="utf-8")
    return sizes


def _write_kind(file: Path, folder: Path) -> dict[str, int]:
    """A parquet file for each split; the number of its rows."""
    import polars as pl

    folder.mkdir(parents=True)
    rows = pl.scan_ndjson(file, infer_schema_length=None)
    if "split" not in rows.collect_schema():
        rows = rows.with_columns(split=pl.lit("test"))
    counts = rows.group_by("split").len().sort("split").collect()
    for split in counts["split"]:
        some = rows.filter(pl.col("split") == split).drop("split")
        some.sink_parquet(folder / f"{split}-00000-of-00001.parquet")
    return dict(counts.iter_rows())


def render_card(sizes: Sizes, issues: Iterable[SolvedIssue], warning: str = "") -> str:
    """The data set's card, with a `warning` to those who train on it.

    https://huggingface.co/docs/hub/datasets-cards
    """
    counts = Counter((one.repository, one.licence) for one in issues)
    total = sum(rows for splits in sizes.values() for rows in splits.values())
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
    }
    lines = [
        f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n",
        "# Solved issues for training\n",
        "Made by `capuchin learn filter`. `policy` holds conversations whose replies are to be "
        "imitated (in `completion`, but for those that `masked` names), `prm` files and places "
        "of edits, and edits with what their samples left, with a verdict, `orm` pairs of a right "
        "and a wrong edit, `candidates` labelled edits, and `instances` a benchmark in "
        "SWE-bench's format. No repository is in both splits unless there is only one, training "
        "ends before the test begins unless repositories alone part them, and near duplicates "
        "are left out.\n",
        *([f"{warning}.\n"] if warning else []),
        *table(
            ("kind", "split", "rows"),
            [(kind, one, rows) for kind, some in sizes.items() for one, rows in some.items()],
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
