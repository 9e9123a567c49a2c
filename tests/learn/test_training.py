"""Trainers learn eight rows by heart; a killed one goes on; tokens are those served."""

import json
import math
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest

from bot.cli import main
from capuchin_demo.environment import find_free_port
from pipeline.lab.learning.filtering import ROW_FILES
from pipeline.lab.learning.interpreter import TrainedKind, read_training
from pipeline.lab.learning.records import ISSUES, ReplyRow, write_manifest, write_rows
from pipeline.lab.learning.training_rows import policy_rows, process_rows
from pipeline.models.base import Message
from sandbox.frozen import replace
from tests.support.data.learning_rows import (
    APART,
    EPOCHS,
    ROWS,
    read_all_rows,
    train_command,
    write_learning_rows,
)
from tests.support.texts import texts_of


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


def test_a_verifier_learns_verdicts_on_edits_and_is_asked_nothing_else(
    data: Path, base_model: Path, tmp_path: Path, trainer_python: str
) -> None:
    found, out = read_all_rows(data), tmp_path / "verifier"
    issues = {one.id: one for one in found.issues}
    steps = [
        process_rows(
            issues[row.issue], row.split, row.source, row.diff, files=row.files, places=row.places,
            right=row.right, summary="Record: nothing ran.",
        )
        for row in found.candidates
    ]  # fmt: skip
    write_rows(data / ROW_FILES["prm"], [rows[-1] for rows in steps])
    write_manifest(data, "filtered", (ISSUES, *ROW_FILES.values()))
    assert main(train_command("prm", data, base_model, out, trainer_python)) == 0
    training = read_training(out)
    assert training.stages == {"edits": (2 * ROWS, 0, 0)}
    assert training.losses[-1][1] < 0.05 < training.losses[0][1]
    assert main(["learn", "judge", str(data), str(out), "--python", trainer_python]) == 0
    (gain,) = json.loads((out / "judged.json").read_text())
    assert (gain["level"], gain["issues"]) == ("edits", APART)


@pytest.mark.parametrize("machines", [1, 2])
def test_a_killed_training_goes_on(
    machines: int, data: Path, base_model: Path, tmp_path: Path, trainer_python: str
) -> None:
    """One process, or two machines of one each with gloo; nothing is left of what was killed."""
    out = tmp_path / "killed"
    words = train_command("prm", data, base_model, out, trainer_python)
    words += ["--set", "epochs=12"]
    meet = f"meet=127.0.0.1:{find_free_port()}"
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "bot", *words, "--set", meet, "--set", f"node={one}/{machines}"]
        )
        for one in range(1, machines + 1)
    ]
    deadline = time.monotonic() + 300
    while not list(out.glob("checkpoints/checkpoint-*/trainer_state.json")):
        assert not any(one.poll() for one in started), "it ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.05)
    started[-1].kill()
    assert all(one.wait() for one in started)
    while list_processes(str(out)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not (out / "training.json").exists()
    (out / "checkpoints/checkpoint-99").mkdir()  # cut off while it was saved
    if machines == 1:
        assert main(words) == 0
    else:
        again = [subprocess.Popen(one.args) for one in started]
        assert not any(one.wait() for one in again)
    training = read_training(out)
    assert training.processes == machines
    assert 0 < training.resumed_from < training.steps == 12
    assert [step for step, _ in training.losses] == list(range(1, training.steps + 1))
    last = out / f"checkpoints/checkpoint-{training.steps}"
    shards = sorted(f"{one.parent.name}/{one.name}" for one in last.glob("*/*.distcp"))
    folders = ("optimizer_0", "pytorch_model_fsdp_0") if machines > 1 else ()
    assert shards == [f"{name}/__{one}_0.distcp" for name in folders for one in range(2)]
    assert main([*words, "--set", "max_tokens=512"]) == 2
    (out / "training.json").unlink()
    other = 3 - machines
    assert main([*words, "--set", f"processes={other}"]) == 1, "its checkpoints have another form"


def list_processes(word: str) -> list[str]:
    """The processes with `word` in an argument."""
    found: list[str] = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += [place.parent.name] if word in place.read_text() else []
    return found


def test_two_processes_prefer_to_the_whole_base_model(
    data: Path, base_model: Path, tmp_path: Path, trainer_python: str
) -> None:
    out = tmp_path / "orm"
    words = train_command("orm", data, base_model, out, trainer_python)
    assert main([*words, "--set", "processes=2", "--set", "epochs=1"]) == 0
    assert read_training(out).losses[0][1] == pytest.approx(math.log(2), abs=1e-4)


def test_two_processes_share_a_training_of_long_and_short_rows(
    data: Path,
    base_model: Path,
    tmp_path: Path,
    trainer_python: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With gloo; the interpreter finds our packages from any folder."""
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
    assert training.stages == {"edit": (ROWS, 0, 0), "reproduction": (0, 1, 0)}
    window = json.loads((base_model / "config.json").read_text())["max_position_embeddings"]
    assert training.max_tokens == window
    assert "Warning: 1 of 9 answers" in said
    assert "Validation loss: " in said
    assert len(training.validation) == EPOCHS["policy"]
    assert training.losses[-1][1] < 0.5 < training.losses[0][1]
    adapter = json.loads((out / "adapter/adapter_config.json").read_text())
    assert adapter["r"] == 4
    assert "| reproduction | 0 | 1 | 0 |" in (out / "report.md").read_text()


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
    for wrong in ("four_bit=true", "batch=0", "none=1", "report_to=wandb", "node=3/2", "node=1/2"):
        other = train_command("policy", data, base_model, tmp_path / "x", trainer_python)
        assert main([*other, "--set", wrong]) == 2
        assert wrong.partition("=")[0] in capsys.readouterr().err
    reward = train_command("orm", data, base_model, tmp_path / "x", trainer_python)
    assert main([*reward, "--set", "full=true"]) == 2


TEXTS = texts_of(__file__)
SERVED: str = TEXTS["SERVED"]


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
    assert len(found) == 3 * (ROWS + APART)
    for kind, same_text, same_tokens, answers, wanted in found:
        assert same_text
        assert same_tokens
        end = "<|im_end|>\n" if kind == "policy" else ""
        assert answers == [text + end for text in wanted]


def write_model(base: Path, folder: Path, template: str) -> Path:
    """The base model with another chat template."""
    folder.mkdir()
    for file in base.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "chat_template.jinja").write_text(template)
    settings: dict[str, Any] = json.loads((folder / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


PLAIN = """{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
{%- endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""
_SWITCH = """{% if add_generation_prompt and enable_thinking is false %}
{{- '<think>\n\n</think>\n\n' }}{% endif %}"""
HYBRID = (
    PLAIN.replace(
        "m.content",
        """((m.content if '</think>' in m.content else
'<think>\n\n</think>\n\n' + m.content) if loop.last and m.role == 'assistant' else
m.content.split('</think>\n\n')[-1])""",
    )
    + _SWITCH
)
"""As Qwen3's: it cuts what was thought before, and has a switch."""


def write_conversation(data: Path, *thinking: str) -> None:
    """Rows of one conversation of three replies, of which the second is malformed."""
    row = read_all_rows(data).policy[0]
    messages = [Message(role="user", text="It is wrong.")]
    replies: list[ReplyRow] = []
    for thought, answer in zip(thinking, ("<edit>1</edit>", "<approve/>"), strict=True):
        replies.append(
            ReplyRow(stage="edit", system="Mend it.", messages=tuple(messages), answer=answer,
                     thinking=thought)
        )  # fmt: skip
        said = (answer, "It is red.", "malformed", "Write a block.")
        roles: tuple[Literal["assistant", "user"], ...] = ("assistant", "user") * 2
        messages += [Message(role=role, text=text) for role, text in zip(roles, said, strict=True)]
    write_rows(data / ROW_FILES["policy"], policy_rows(row.issue, "train", replies))
    write_manifest(data, "filtered", (ISSUES, *ROW_FILES.values()))


@pytest.mark.parametrize(
    ("template", "thinking", "more", "rows", "counts"),
    [
        (PLAIN, ("", ""), (), 1, (2, 0, 0)),
        (PLAIN, ("Hm.", "Hm."), (), 2, (2, 0, 0)),
        (PLAIN, ("", ""), ("max_tokens=60",), 1, (1, 1, 0)),
        (HYBRID, ("Hm.", "Hm."), (), 2, (2, 0, 0)),
        (HYBRID, ("", "Hm."), (), 1, (1, 0, 1)),
        (HYBRID, ("", "Hm."), ("thoughts=false",), 2, (2, 0, 0)),
    ],
)
def test_a_conversation_is_one_row_where_each_reply_has_the_tokens_that_are_served(
    template: str, thinking: tuple[str, str], more: tuple[str, ...], rows: int,
    counts: tuple[int, ...], data: Path, base_model: Path, tmp_path: Path, trainer_python: str,
) -> None:  # fmt: skip
    write_conversation(data, *thinking)
    model, out = write_model(base_model, tmp_path / "model", template), tmp_path / "out"
    words = ["learn", "train", "policy", str(data), "--base", str(model), "--out", str(out)]
    more = tuple(word for one in ("epochs=1", *more) for word in ("--set", one))
    assert main([*words, "--python", trainer_python, *more]) == 0
    training = read_training(out)
    assert (training.rows, training.stages) == (rows, {"edit": counts})
    read = "import sys, json, pyarrow as pa; t = pa.ipc.open_stream(sys.argv[1]).read_all()"
    show = f"{read}; print(json.dumps([t['input_ids'].to_pylist(), t['labels'].to_pylist()]))"
    words = [trainer_python, "-c", show, str(out / "tokens/train.arrow")]
    ids, labels = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    for some, learnt in zip(ids, labels, strict=True):
        assert [b for b in learnt if b != -100] == [
            a for a, b in zip(some, learnt, strict=True) if b != -100
        ]
    learnt_tokens = sum(label != -100 for one in labels for label in one)
    assert learnt_tokens < sum(map(len, ids)) / 2, "what users say, and malformed replies, is not"


def test_a_model_that_thinks_is_not_trained_on_replies_without_a_thought(
    data: Path, base_model: Path, tmp_path: Path, trainer_python: str,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    write_conversation(data, "", "")
    model = write_model(base_model, tmp_path / "model", HYBRID)
    words = ["learn", "train", "policy", str(data), "--base", str(model), "--python"]
    assert main([*words, trainer_python, "--out", str(tmp_path / "out")]) == 1
    assert "thinking_tokens" in capfd.readouterr().err


def test_a_disk_that_fills_is_said_and_the_same_command_goes_on(
    data: Path, base_model: Path, tmp_path: Path, trainer_python: str,
) -> None:  # fmt: skip
    words = train_command("prm", data, base_model, tmp_path / "out", trainer_python)
    limited = f"ulimit -f 4; exec {sys.executable} -m bot {shlex.join(words)}"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"written to {tmp_path / 'out/tokens'}" in done.stderr
    assert "Traceback" not in done.stderr
    assert main(words) == 0


def test_experts_that_no_adapter_reaches_are_refused(
    data: Path, base_model: Path, tmp_path: Path, trainer_python: str,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    model = write_model(base_model, tmp_path / "model", PLAIN)
    config = json.loads((model / "config.json").read_text())
    experts = {"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 1}
    (model / "config.json").write_text(json.dumps(config | experts))
    assert main(train_command("prm", data, model, tmp_path / "out", trainer_python)) == 1
    assert "experts" in capfd.readouterr().err


def test_a_template_that_changes_the_prompt_is_refused(
    data: Path,
    base_model: Path,
    tmp_path: Path,
    trainer_python: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    template = "{% for m in messages %}{{ messages | length }}{{ m['content'] }}{% endfor %}"
    changed = write_model(base_model, tmp_path / "changed", template)
    assert main(train_command("prm", data, changed, tmp_path / "out", trainer_python)) == 1
    assert "another template" in capfd.readouterr().err
