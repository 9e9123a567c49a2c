"""SWE-bench instances, predictions, labels, ensembles."""

import gzip
import json
import re
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeVar

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)

from pipeline.codebase.unified_diff import parse_diff
from pipeline.data.types import CommitSha
from pipeline.regression.results import TestRun

_SUFFIXES = (".jsonl", ".jsonl.gz")

T = TypeVar("T")
InstanceT = TypeVar("InstanceT", bound="Instance")


class BadData(Exception):
    """A file is unusable; the sentence is for the person who named it."""


class Instance(BaseModel):
    """The fields of a SWE-bench instance that selection may read, and its repository."""

    model_config = ConfigDict(frozen=True)

    instance_id: str
    repo: str
    problem_statement: str = ""


PublishedImage = Annotated[
    str,
    Field(
        validation_alias=AliasChoices("image_name", "docker_image", "image"),
        pattern=r"^(?:[a-z0-9][\w./:@-]*)?$",
        max_length=500,
    ),
]


class LocatedInstance(Instance):
    """An instance with its base commit and its reference edit."""

    base_commit: CommitSha
    patch: str
    image: PublishedImage = ""
    """A published image in which it is installed, as SWE-smith and SWE-rebench name it."""


def _read_list(value: Any) -> Any:
    """The dataset on Hugging Face holds lists as JSON text."""
    return json.loads(value) if isinstance(value, str) else value


TestNames = Annotated[tuple[str, ...], BeforeValidator(_read_list)]


class Prediction(BaseModel):
    """One row of predictions, in SWE-bench's own format."""

    model_config = ConfigDict(frozen=True)

    instance_id: str
    model_name_or_path: str = ""
    model_patch: str | None = None


@dataclass(frozen=True)
class Dataset:
    """Edits of several members for the same instances, and which of them resolve theirs."""

    instances: tuple[Instance, ...]
    members: tuple[str, ...]
    patches: Mapping[str, Mapping[str, str]]
    """By member: instance to diff; no entry if it has none."""
    resolved: Mapping[str, frozenset[str]]
    """By member: the instances that its edit resolves."""

    def list_edits(self) -> dict[str, list[str]]:
        """The edits of all members by instance."""
        found: dict[str, list[str]] = {}
        for patches in self.patches.values():
            for name, diff in patches.items():
                found.setdefault(name, []).append(diff)
        return found

    def is_right(self, member: str, instance: str) -> bool:
        return instance in self.resolved[member]


def read_dataset(
    instances: Path, predictions: Path, labels: Path, ensemble: str | None = None
) -> Dataset:
    """Read a dataset.

    `predictions` is a folder of `MEMBER.jsonl[.gz]` or one such file; `labels` maps members to
    lists of resolved instances; `ensemble` is `FILE:NAME`, else every member counts.

    Raises:
        BadData: a file is missing, broken or contradicts another.
    """
    rows = read_rows(instances, Instance)
    files = prediction_files(predictions)
    truth = read_labels(labels)
    members = tuple(read_ensemble(ensemble)) if ensemble else tuple(sorted(files))
    for member in members:
        if member not in files:
            raise BadData(f"There are no predictions of {member} in {predictions}.")
        if member not in truth:
            raise BadData(f"{labels} has no labels for {member}.")
    known = {row.instance_id for row in rows}
    patches = {
        member: {
            name: diff for name, diff in read_predictions(files[member]).items() if name in known
        }
        for member in members
    }
    resolved = {member: frozenset(truth[member]) & known for member in members}
    if not any(resolved.values()) and any(truth[member] for member in members):
        raise BadData(f"{labels} labels none of the instances in {instances}.")
    return Dataset(rows, members, patches, resolved)


def read_labels(path: Path) -> dict[str, list[str]]:
    """The instances that each member, or system, resolves. Raises BadData."""
    return _read_json(path, TypeAdapter(dict[str, list[str]]), "labels")


def read_rows(path: Path, kind: type[InstanceT]) -> tuple[InstanceT, ...]:
    """The instances of a file, as `kind`. Raises BadData."""
    rows = tuple(read_lines(path, kind))
    if not rows:
        raise BadData(f"{path} holds no instance.")
    _check_unique(path, (row.instance_id for row in rows))
    return rows


def prediction_files(path: Path) -> dict[str, Path]:
    """Member to file, for a folder of predictions or one file. Raises BadData."""
    if path.is_dir():
        found = {_stem(file): file for file in sorted(path.iterdir()) if _is_predictions_file(file)}
        if not found:
            raise BadData(f"{path} holds no .jsonl or .jsonl.gz file.")
        return found
    if not path.exists():
        raise BadData(f"{path} does not exist.")
    return {_stem(path): path}


def read_ensemble(named: str) -> list[str]:
    """The members that `FILE:NAME` lists. Raises BadData."""
    file, colon, name = named.rpartition(":")
    if not colon or not file or not name:
        raise BadData(f"An ensemble is given as FILE:NAME, not as {named!r}.")
    lists = _read_json(Path(file), TypeAdapter(dict[str, list[str]]), "ensembles")
    if name not in lists:
        raise BadData(f"{file} has no ensemble {name!r}, only {', '.join(sorted(lists))}.")
    if not lists[name]:
        raise BadData(f"The ensemble {name!r} in {file} has no members.")
    if len(set(lists[name])) != len(lists[name]):
        raise BadData(f"The ensemble {name!r} in {file} names a member twice.")
    return lists[name]


SampleLabels = Mapping[str, Mapping[int, Sequence[int] | None]]
"""By instance: the samples that resolve it, each with its resolving revisions, counted from 0; None
if only the last revision is known to resolve it."""


def read_samples(path: Path) -> SampleLabels:
    """The labels of runs: `{"INSTANCE": [SAMPLE, ...]}`, or `{"SAMPLE": [REVISION, ...]}` in place
    of the list. Raises BadData."""
    kind = TypeAdapter(dict[str, list[int] | dict[int, list[int]]])
    found = _read_json(path, kind, "labels of samples")
    return {
        name: dict(samples) if isinstance(samples, dict) else dict.fromkeys(samples)
        for name, samples in found.items()
    }


class _Reference(BaseModel):
    instance_id: str
    patch: str = ""


def read_references(path: Path) -> dict[str, str]:
    """The diff of each instance's reference edit; instances without one are left out.

    Selection must never see this. Raises BadData.
    """
    return {row.instance_id: row.patch for row in read_lines(path, _Reference) if row.patch}


def list_changed_files(references: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """The files that each reference edit changes, by their names before it."""
    return {
        name: frozenset(file.old for file in parse_diff(patch) if file.old)
        for name, patch in references.items()
    }


def read_predictions(path: Path) -> dict[str, str]:
    """The edits of one file of predictions by instance, without empty ones. Raises BadData."""
    rows = list(read_lines(path, Prediction))
    _check_unique(path, (row.instance_id for row in rows))
    patches = {row.instance_id: row.model_patch or "" for row in rows}
    return {name: patch for name, patch in patches.items() if patch.strip()}


def _check_unique(path: Path, names: Iterator[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise BadData(f"{path} has two rows for {name}.")
        seen.add(name)


RowT = TypeVar("RowT", bound=BaseModel)


def read_lines(path: Path, kind: type[RowT]) -> Iterator[RowT]:
    """The rows of a file of JSON lines, which may be compressed, or of a data set in Hugging Face's
    layout: a parquet file, or a folder of them. Raises BadData."""
    is_parquet = path.suffix == ".parquet" or path.is_dir()
    for number, line in _read_parquet(path) if is_parquet else _read_numbered(path):
        try:
            yield kind.model_validate_json(line)
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(str(part) for part in problem["loc"])
            raise BadData(
                f"{path}, line {number}: {where + ': ' if where else ''}{problem['msg']}."
            ) from None


def _read_numbered(path: Path) -> Iterator[tuple[int, str]]:
    with _open(path) as file:
        yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())


_COLUMNS = (
    "instance_id", "repo", "base_commit", "problem_statement", "patch", "test_patch", "created_at",
    "license", "license_name", "FAIL_TO_PASS", "PASS_TO_PASS", "fail_to_pass", "pass_to_pass",
    "model", "model_name", "model_name_or_path", "traj_id", "trajectory_id", "run_id",
    "model_patch", "generated_patch", "test_result", "resolved", "target",
    "image_name", "docker_image",
)  # fmt: skip
"""What is read of SWE-bench, SWE-Gym, SWE-rebench and SWE-smith; never the long conversations."""


def _read_parquet(path: Path) -> Iterator[tuple[int, str]]:
    """The rows as JSON, numbered; of splits that share an instance, the first."""
    import polars as pl

    files = [path] if path.is_file() else sorted(path.rglob("[!.]*.parquet"))
    if not files:
        raise BadData(f"{path} holds no parquet file.")
    instances, number = set[str](), 0
    try:
        for file in files:
            rows = pl.scan_parquet(file)
            names = [name for name in rows.collect_schema() if name in _COLUMNS]
            if "instance_id" not in names:
                raise BadData(f"{file} has no column instance_id.")
            for batch in rows.select(names).collect_batches(chunk_size=200):
                for row in batch.iter_rows(named=True):
                    number += 1
                    if "problem_statement" in row:
                        if row["instance_id"] in instances:
                            continue
                        instances.add(row["instance_id"])
                    known = {name: value for name, value in row.items() if value is not None}
                    yield number, json.dumps(known, default=lambda date: date.isoformat())
    except (OSError, pl.exceptions.PolarsError) as error:
        raise BadData(f"{path} cannot be read: {error}") from None


def _read_json(path: Path, kind: TypeAdapter[T], what: str) -> T:
    try:
        with _open(path) as file:
            return kind.validate_python(json.load(file))
    except json.JSONDecodeError as error:
        raise BadData(f"{path} is not JSON: {error.msg}, line {error.lineno}.") from None
    except ValidationError:
        raise BadData(f"{path} is not a file of {what}: each name with its list.") from None


@contextmanager
def _open(path: Path) -> Generator[TextIO]:
    try:
        # Only a line feed ends a row: JSON's strings may hold the other ends of lines.
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8", newline="\n") as file:
            yield file
    except UnicodeDecodeError:
        raise BadData(f"{path} is not UTF-8 text.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise BadData(f"{path} is not a whole gzip file.") from None
    except OSError as error:
        raise BadData(f"{path} cannot be read: {error.strerror}.") from None


def _is_predictions_file(path: Path) -> bool:
    return path.name.endswith(_SUFFIXES) and path.is_file()


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


_UNITTEST = re.compile(r"(\w+) \(([\w.]+)\)")
_PATH_PARAMETER = re.compile(r"\[(/[^/*\]][^*\]]{0,500})\]?$")


@dataclass
class NamedOutcomes:
    """Tests of one run under the names that benchmarks give them."""

    passed: set[str] = field(default_factory=set[str])
    failed: set[str] = field(default_factory=set[str])

    def passes(self, wanted: str) -> bool:
        """Whether the test ran and passed; of several of that name, all."""
        keys = normalise_name(wanted)
        return any(key in self.passed for key in keys) and not any(k in self.failed for k in keys)


def normalise_name(name: str) -> tuple[str, ...]:
    """A test's name as each version of each runner would write it, made the same.

    `test_a (m.C)` and, from Python 3.11 on, `test_a (m.C.test_a)` are `m.C.test_a`; pytest before 4
    writes `::()::`; the dataset cuts pytest's names at a space, and paths in them to their ends.
    """
    match = _UNITTEST.fullmatch(name.strip())
    if match:
        test, place = match[1], match[2]
        return (place if place.endswith(f".{test}") else f"{place}.{test}",)
    if "::" in name:
        name = (name.replace("::()::", "::").split() or [""])[0]
        return (_PATH_PARAMETER.sub(_shorten_path, name),)
    return (name.strip(),)


def _shorten_path(match: re.Match[str]) -> str:
    return "[/" + match[1].rstrip("]").split("/")[-1] + "]"


def read_outcomes(run: TestRun, *, bare: bool) -> NamedOutcomes:
    """The tests of `run` by all names under which they may be asked for; `bare`: also by the names
    of their functions alone."""
    found = NamedOutcomes()
    for names, kept in ((run.suite.passed, found.passed), (run.suite.failed, found.failed)):
        for name in names:
            kept.update(normalise_name(name))
            if bare:
                kept.add(name.rpartition("::")[2])
            if title := run.titles.get(name):
                kept.add(title.strip())
    found.failed.update(key for name in run.suite.offline for key in normalise_name(name))
    return found
