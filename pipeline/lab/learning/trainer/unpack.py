"""Reads a data set in Hugging Face's layout: parquet files to JSON lines."""
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

COLUMNS = (
    "instance_id", "repo", "base_commit", "problem_statement", "patch", "test_patch", "created_at",
    "license", "license_name", "FAIL_TO_PASS", "PASS_TO_PASS", "fail_to_pass", "pass_to_pass",
    "model", "model_name", "model_name_or_path", "traj_id", "trajectory_id", "run_id",
    "model_patch", "generated_patch", "test_result", "resolved", "target",
)  # fmt: skip
"""What is read of SWE-bench, SWE-Gym, SWE-rebench and SWE-smith; never the long conversations."""


def main(source: Path, target: Path) -> int:
    """Write the rows of the parquet file, or of those in the folder `source`, into `target`; of
    splits that share an instance, the first. Return the exit code."""
    import pyarrow.parquet as parquet

    files = [source] if source.is_file() else sorted(source.rglob("[!.]*.parquet"))
    if not files:
        sys.stderr.write(f"{source} holds no parquet file.\n")
        return 1
    instances: set[str] = set()
    with target.open("w", encoding="utf-8") as out:
        for file in files:
            opened = parquet.ParquetFile(file)
            names = [name for name in opened.schema_arrow.names if name in COLUMNS]
            for batch in opened.iter_batches(batch_size=200, columns=names):
                for row in batch.to_pylist():
                    if "problem_statement" in row:
                        if row["instance_id"] in instances:
                            continue
                        instances.add(row["instance_id"])
                    out.write(json.dumps(_clean(row), default=_write_date) + "\n")
    return 0


def _clean(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _write_date(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
