"""Writes training rows in Hugging Face's layout: `KIND/SPLIT-00000-of-00001.parquet`."""
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import Any

_FILE_BYTES = 500_000_000
"""The hub recommends parquet files of less."""


def main(rows: Path, out: Path, sizes: Path) -> int:
    """Write each file of JSON lines in `rows` as a kind of `out`, and into `sizes`, by kind and
    split, how many rows and bytes there are."""
    found: dict[str, dict[str, list[int]]] = {}
    for file in sorted(rows.glob("*.jsonl")):
        splits = sorted({str(row.get("split", "test")) for row in _read(file)})
        found[file.stem] = {
            split: _write(file, split, out / file.stem, found=[0, 0]) for split in splits
        }
    sizes.write_text(json.dumps(found), encoding="utf-8")
    return 0


def _read(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _write(file: Path, split: str, folder: Path, found: list[int]) -> list[int]:
    import pyarrow
    import pyarrow.parquet as parquet

    folder.mkdir(parents=True, exist_ok=True)
    rows = (row for row in _read(file) if row.pop("split", "test") == split)
    tables = iter(lambda: list(islice(rows, 200)), [])
    schema: Any = None
    parts = list[Path]()
    # A new file is begun where the last is large.
    for _, group in groupby(tables, key=lambda _: found[1] // _FILE_BYTES):
        parts.append(folder / f"{split}.{len(parts)}.tmp")
        writer: Any = None
        for some in group:
            schema = schema or _find_schema(some[0])
            table = pyarrow.Table.from_pylist(some, schema=schema)
            writer = writer or parquet.ParquetWriter(parts[-1], schema, compression="zstd")
            writer.write_table(table)
            found[0] += table.num_rows
            found[1] += table.nbytes
        writer.close()
    for number, part in enumerate(parts):
        part.rename(folder / f"{split}-{number:05}-of-{len(parts):05}.parquet")
    return found


def _find_schema(row: dict[str, Any]) -> Any:
    """The types of a kind's rows, of which the first may lack some values."""
    import pyarrow

    text, truth = pyarrow.string(), pyarrow.bool_()
    texts = pyarrow.list_(text)
    messages = pyarrow.list_(pyarrow.struct([("role", text), ("content", text)]))
    types: dict[str, Any] = {
        **dict.fromkeys(("prompt", "completion", "chosen", "rejected"), messages),
        **dict.fromkeys(("right", "files", "places"), truth),
        **dict.fromkeys(("FAIL_TO_PASS", "PASS_TO_PASS"), texts),
    }
    return pyarrow.schema([(name, types.get(name, text)) for name in row])
