"""The shipped ways to share the work of `capuchin learn`: what each starts is what it takes."""

import argparse
import subprocess
from pathlib import Path

import pytest

from bot.cli.lab import learn
from tests.support.manifests import FOLDER, render_component

SLURM = FOLDER.parent / "slurm"


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the arguments of `capuchin` are written, one a line, in place of what it would do."""
    program = tmp_path / "bin/capuchin"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/started\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return tmp_path / "started"


def read_options(started: Path) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    learn.register(parser.add_subparsers())
    return parser.parse_args(started.read_text().splitlines())


def shard_of(started: Path) -> tuple[int, int]:
    args = read_options(started)
    assert args.trees
    return args.shard.number, args.shard.of


def test_the_indexed_job_gives_each_pod_its_shard(
    tmp_path: Path, started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = render_component(tmp_path, "shards")
    (job,) = (one for one in found if one["kind"] == "Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    count = job["spec"]["completions"]
    shards: set[tuple[int, int]] = set()
    for index in range(count):
        monkeypatch.setenv("JOB_COMPLETION_INDEX", str(index))
        subprocess.run([*container["command"], *container["args"]], check=True)
        shards.add(shard_of(started))
    assert shards == {(number, count) for number in range(1, count + 1)}


def test_the_slurm_array_gives_each_task_its_shard(
    started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [str(SLURM / "sample.sh"), "data", "trees", "runs"]
    assert subprocess.run(words, check=False).returncode == 2
    monkeypatch.setenv("SLURM_ARRAY_TASK_MIN", "0")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    monkeypatch.setenv("SLURM_ARRAY_TASK_MAX", "5")
    assert subprocess.run(words, check=False).returncode == 2
    monkeypatch.setenv("SLURM_ARRAY_TASK_MIN", "1")
    subprocess.run(words, check=True)
    assert shard_of(started) == (3, 5)


def test_the_slurm_job_tells_each_machine_which_it_is(
    started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [str(SLURM / "train.sh"), "policy", "rows", "--base", "a b", "--out", "out"]
    assert subprocess.run(words, check=False).returncode == 2
    for name, text in (("scontrol", "printf 'n1\\nn2\\n'"), ("srun", 'shift\nexec "$@"')):
        (started.parent / f"bin/{name}").write_text(f"#!/bin/sh\n{text}\n")
        (started.parent / f"bin/{name}").chmod(0o755)
    for name, value in (("JOB_NODELIST", "n[1-2]"), ("NNODES", "2"), ("NODEID", "1")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    subprocess.run(words, check=True)
    args = read_options(started)
    assert (str(args.base), dict(args.set)) == ("a b", {"meet": "n1", "node": "2/2"})
