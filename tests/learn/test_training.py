"""Trainers learn eight rows by heart; a killed one goes on; tokens are those served."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bot.cli import main
from pipeline.lab.learning.filtering import ROW_FILES
from pipeline.lab.learning.interpreter import TrainedKind, read_training
from pipeline.lab.learning.records import ISSUES, write_manifest, write_rows
from sandbox.frozen import replace
from tests.support.data.learning_rows import (
    APART,
    EPOCHS,
    ROWS,
    read_all_rows,
    train_command,
    write_learning_rows,
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_learning_rows(tmp_path / "data")
    return tmp_path / "data"


@pytest.mark.parametrize(("kind", "most"), [("policy", 0.05), ("prm", 0.05), ("orm", 0.05)])
def test_eight_rows_are_learnt_by_heart(
    kind: TrainedKind,
    most: float,
    data: Path,
    base_model: Path,
    tmp_path: Path,
    trainer_python: str,
) -> None:
    out = tmp_path / kind
    assert main(train_command(kind, data, base_model, out, trainer_python)) == 0
    training = read_training(out)
    assert (training.rows, training.too_long) == (ROWS, 0)
    assert training.losses[-1][1] < most < training.losses[0][1]
    assert (out / "adapter/adapter_model.safetensors").exists()
    assert "<svg" in (out / "loss.svg").read_text()
    assert json.loads((out / "report.json").read_text())["steps"] == training.steps
    if kind == "orm":
        assert main(["learn", "judge", str(data), str(out), "--python", trainer_python]) == 0
        (gain,) = json.loads((out / "judged.json").read_text())
        assert (gain["level"], gain["issues"]) == ("edits", APART)


def test_a_killed_training_goes_on(
    data: Path, base_model: Path, tmp_path: Path, trainer_python: str
) -> None:
    out = tmp_path / "killed"
    words = train_command("prm", data, base_model, out, trainer_python)
    first = subprocess.Popen([sys.executable, "-m", "bot", *words], start_new_session=True)
    deadline = time.monotonic() + 300
    while not list(out.glob("checkpoints/checkpoint-*/trainer_state.json")):
        assert first.poll() is None, "it ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.05)
    subprocess.run(["kill", "-9", "--", f"-{first.pid}"], check=True)
    first.wait()
    assert not (out / "training.json").exists()
    assert main(words) == 0
    training = read_training(out)
    assert 0 < training.resumed_from < training.steps == EPOCHS["prm"]
    assert [step for step, _ in training.losses] == list(range(1, training.steps + 1))
    other = [*words[:-1], "max_tokens=512"]
    assert main(other) == 2


def test_two_processes_share_a_training_of_long_and_short_rows(
    data: Path,
    base_model: Path,
    tmp_path: Path,
    trainer_python: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By `accelerate launch`, with gloo; the interpreter finds our packages from any folder."""
    monkeypatch.chdir(tmp_path)
    long = read_all_rows(data).policy[0]
    longer = replace(
        long, stage="reproduction", prompt=(replace(long.prompt[0], content="x " * 9999),)
    )
    rows = [*read_all_rows(data).policy, longer]
    write_rows(data / ROW_FILES["policy"], rows)
    write_manifest(data, "filtered", (ISSUES, *ROW_FILES.values()))
    out = tmp_path / "two"
    words = train_command("policy", data, base_model, out, trainer_python)
    more = [word for name in ("processes=2", "rank=4", "batch=1") for word in ("--set", name)]
    assert main([*words[:-2], *more]) == 0
    said = capfd.readouterr().out
    training = read_training(out)
    assert (training.processes, training.rows) == (2, ROWS)
    assert training.stages == {"edit": (ROWS, 0), "reproduction": (0, 1)}
    window = json.loads((base_model / "config.json").read_text())["max_position_embeddings"]
    assert training.max_tokens == window
    assert "Warning: 1 of 9 rows" in said
    assert "Validation loss: " in said
    assert len(training.validation) == EPOCHS["policy"]
    assert training.losses[-1][1] < 0.5 < training.losses[0][1]
    adapter = json.loads((out / "adapter/adapter_config.json").read_text())
    assert adapter["r"] == 4
    assert "| reproduction | 0 | 1 |" in (out / "report.md").read_text()


def test_all_weights_of_a_policy_are_trained_without_an_adapter(
    data: Path, base_model: Path, tmp_path: Path, trainer_python: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    out = tmp_path / "full"
    words = train_command("policy", data, base_model, out, trainer_python)
    assert main([*words, "--set", "learning_rate=0.001", "--set", "full=true"]) == 0
    assert (out / "adapter/model.safetensors").exists()
    assert not (out / "adapter/adapter_config.json").exists()
    assert read_training(out).losses[-1][1] < read_training(out).losses[0][1]
    for wrong in ("four_bit=true", "batch=0", "none=1"):
        other = train_command("policy", data, base_model, tmp_path / "x", trainer_python)
        assert main([*other, "--set", wrong]) == 2
        assert wrong.partition("=")[0] in capsys.readouterr().err
    reward = train_command("orm", data, base_model, tmp_path / "x", trainer_python)
    assert main([*reward, "--set", "full=true"]) == 2


SERVED = """
import json, sys
sys.path.append(sys.argv[1])
from transformers import AutoTokenizer
from pipeline.lab.learning.trainer import train_tokens
from pipeline.lab.learning.trainer.train_tokens import completion_example, preference_example
read_rows = train_tokens.read_rows
from pathlib import Path
tokenizer = AutoTokenizer.from_pretrained(sys.argv[2])
found = []
for kind in ("policy", "prm", "orm"):
    for row in read_rows(Path(sys.argv[3]) / f"{kind}.jsonl", "train"):
        served = tokenizer.apply_chat_template(
            row["prompt"], add_generation_prompt=True, tokenize=False)
        if kind == "orm":
            one = preference_example(tokenizer, row)
            asked, answers = one["prompt_ids"], [one["chosen_ids"], one["rejected_ids"]]
            wanted = [row["chosen"], row["rejected"]]
        else:
            one = completion_example(tokenizer, row, ends=kind == "policy")
            cut = one["completion_mask"].index(1)
            asked, answers, wanted = one["input_ids"][:cut], [one["input_ids"][cut:]], [
                row["completion"]]
        found.append([
            kind, tokenizer.decode(asked) == served, tokenizer(served)["input_ids"] == asked,
            [tokenizer.decode(a) for a in answers], [w[0]["content"] for w in wanted]])
print(json.dumps(found))
"""


def test_the_tokens_trained_on_are_the_tokens_served(
    data: Path, base_model: Path, trainer_python: str
) -> None:
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [trainer_python, "-c", SERVED, root, str(base_model), str(data)],
        capture_output=True,
        check=True,
    )
    found: list[tuple[str, bool, bool, list[str], list[str]]] = json.loads(done.stdout)
    assert len(found) == 3 * ROWS
    for kind, same_text, same_tokens, answers, wanted in found:
        assert same_text
        assert same_tokens
        end = "<|im_end|>\n" if kind == "policy" else ""
        assert answers == [text + end for text in wanted]


def test_a_template_that_changes_the_prompt_is_refused(
    data: Path,
    base_model: Path,
    tmp_path: Path,
    trainer_python: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    changed = tmp_path / "changed"
    changed.mkdir()
    for file in base_model.iterdir():
        (changed / file.name).write_bytes(file.read_bytes())
    template = "{% for m in messages %}{{ messages | length }}{{ m['content'] }}{% endfor %}"
    (changed / "chat_template.jinja").write_text(template)
    settings: dict[str, Any] = json.loads((changed / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (changed / "tokenizer_config.json").write_text(json.dumps(settings))
    assert main(train_command("prm", data, changed, tmp_path / "out", trainer_python)) == 1
    assert "another template" in capfd.readouterr().err
