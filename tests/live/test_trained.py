"""Adapters of our trainers behind a real vLLM: its scores are those that TRL and PEFT compute."""

import json
import math
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from bot.cli import main
from bot.cli.doctor_services import CheckFailed, check_process_reward, check_reward
from bot.runner.models import ModelContext, ModelFactory
from bot.settings import Settings
from pipeline.data.code_places import Located, SuspectFile
from pipeline.data.options import Options
from pipeline.lab.learning.interpreter import TrainedKind, score_rows
from pipeline.lab.learning.training_rows import OutcomeRow, ProcessRow
from pipeline.localisation.process_reward import render_judgement
from pipeline.models.metering import Meter
from pipeline.store import DirStore
from pipeline.workflows.outcome import Models
from sandbox.frozen import replace
from tests.live.server import LENGTH, NAME, serve_vllm
from tests.support.data.learning_rows import APART, ROWS, Rows, train_command, write_learning_rows

CLOSE = 0.01
KINDS: tuple[TrainedKind, ...] = ("orm", "prm")
TRL_REWARDS = Path(__file__).with_name("trl_rewards.py")


class Trained(NamedTuple):
    rows: Rows
    folder: Path
    """Holds `orm` and `prm`."""
    rewards: list[list[float]]
    """By TRL: of each pair's right and wrong edit."""
    odds: list[float]
    """Of `+` against `-`, by the process reward model in its own interpreter."""


@pytest.fixture
def trained(trainer_python: str, base_model: Path, tmp_path: Path) -> Trained:
    data = tmp_path / "data"
    rows = write_learning_rows(data)
    for kind in KINDS:
        words = train_command(kind, data, base_model, tmp_path / kind, trainer_python)
        assert main(words) == 0
    rewards = compute_trl_rewards(trainer_python, tmp_path / "orm", data / "orm.jsonl")
    return Trained(rows, tmp_path, rewards, compute_odds(trainer_python, rows, tmp_path / "prm"))


async def test_served_rewards_are_those_of_the_trainer(
    trained: Trained, base_model: Path, vllm_python: str, tmp_path: Path
) -> None:
    adapters = [f"{kind}={trained.folder / kind / 'adapter'}" for kind in KINDS]
    served = serve_vllm(
        vllm_python, base_model, tmp_path, "--dtype", "float32",
        "--enable-lora", "--max-loras", "2", "--max-lora-rank", "16", "--lora-modules", *adapters,
    )  # fmt: skip
    rows = trained.rows
    async with served as url:
        settings = make_settings(f"{url}/v1")
        await check_doctor(settings, f"{url}/v1")
        store = DirStore(tmp_path / "store")
        meter = await Meter.open(store, 10)
        context = ModelContext(meter, Options())
        async with ModelFactory(settings).open(context) as models:
            ours = [await ask_rewards(models, rows, row) for row in rows.outcome]
            chances = [await ask_chance(models, rows, row) for row in rows.process]
    assert len(ours) == len(trained.rewards) == len(chances) == ROWS + APART
    by_us, by_trl = flatten(ours), flatten(trained.rewards)
    apart = max(abs(a - b) for a, b in zip(by_us, by_trl, strict=True))
    told = [1 / (1 + math.exp(-value)) for value in trained.odds]
    odd = max(abs(a - b) for a, b in zip(chances, told, strict=True))
    print(f"\nlargest difference: of {len(by_us)} rewards {apart:.5f}, of the chances {odd:.5f}")
    assert apart < CLOSE
    assert order(by_us) == order(by_trl)
    assert all(right > wrong for right, wrong in ours[:ROWS])
    assert odd < CLOSE
    wanted = [row.completion[0].content == "+" for row in rows.process]
    assert [chance > 0.5 for chance in chances[:ROWS]] == wanted[:ROWS]


def compute_trl_rewards(python: str, trained: Path, rows: Path) -> list[list[float]]:
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [python, str(TRL_REWARDS), root, str(trained), str(rows)], capture_output=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def compute_odds(python: str, rows: Rows, trained: Path) -> list[float]:
    """The log-odds of `+` against `-` by the trained model in its own interpreter."""
    asked: list[dict[str, object]] = [
        {"key": str(n), "kind": "prm", "prompt": [one.model_dump() for one in row.prompt]}
        for n, row in enumerate(rows.process)
    ]
    return list(score_rows(python, asked, trained).values())


def make_settings(url: str) -> Settings:
    return Settings.model_validate(
        {
            "solver_model": f"openai:{NAME}@{url}",
            "orm_model": f"openai:orm@{url},openai:{NAME}@{url}",
            "prm_model": f"openai:prm@{url}",
        }
    )


async def check_doctor(settings: Settings, url: str) -> None:
    told = await check_reward(settings, "orm_model")
    assert told.count(f"{LENGTH:,}") == told.count("with log-probabilities") == 2
    assert (await check_process_reward(settings)).endswith("with log-probabilities")
    other = replace(settings, orm_model=f"openai:other@{url}")
    with pytest.raises(CheckFailed) as failed:
        await check_reward(other, "orm_model")
    assert f"The server has {NAME}, orm, prm: " in failed.value.mend


async def ask_rewards(models: Models, rows: Rows, row: OutcomeRow) -> list[float]:
    """By the client of a run: the rewards of the right and of the wrong edit."""
    assert models.orm is not None
    issue = next(one.issue for one in rows.issues if one.id == row.issue)
    edits = (row.chosen[0].content, row.rejected[0].content)
    return [await models.orm.score(issue, edit) for edit in edits]


async def ask_chance(models: Models, rows: Rows, row: ProcessRow) -> float:
    """By the client of a run: the probability that the files are right."""
    assert models.prm is not None
    issue = next(one.issue for one in rows.issues if one.id == row.issue)
    found = Located(files=(SuspectFile(path="shop/total.py"),))
    assert [one.content for one in row.prompt] == list(render_judgement(issue, found))
    score = await models.prm.score(issue, found)
    assert not score.in_words
    return score.probability


def flatten(pairs: Sequence[Sequence[float]]) -> list[float]:
    return [value for pair in pairs for value in pair]


def order(values: Sequence[float]) -> list[int]:
    return sorted(range(len(values)), key=values.__getitem__)
