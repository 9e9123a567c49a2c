"""Scores rows with a trained adapter. `main()` appends `{"key", "score"}` lines to a file."""
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.lab.learning.trainer.train import BETA
from pipeline.lab.learning.trainer.train_tokens import answer_tokens, verdict_tokens


def main(requests: Path, scores: Path, trained: Path) -> int:
    """Score every request that has no score yet; return the exit code.

    A request has `key`, `kind`, `prompt` and, for `orm`, `answer`. `prm`: the log-odds of `+`
    against `-` as the first token. `orm`: beta times the log-ratio of adapter and base.
    """
    import torch
    from peft import PeftModel
    from tqdm import tqdm
    from transformers import AutoModelForCausalLM, AutoTokenizer

    report = json.loads((trained / "training.json").read_text(encoding="utf-8"))
    tokenizer = AutoTokenizer.from_pretrained(trained / "adapter")
    gpu = torch.cuda.is_available()
    base = AutoModelForCausalLM.from_pretrained(
        report["base"],
        dtype=torch.bfloat16 if gpu else torch.float32,
        device_map="auto" if gpu else "cpu",  # over all GPUs
    )
    model = PeftModel.from_pretrained(base, trained / "adapter").eval()
    device = base.device
    done = {json.loads(line)["key"] for line in _read_lines(scores)}
    rows = [row for line in _read_lines(requests) if (row := json.loads(line))["key"] not in done]
    with scores.open("a", encoding="utf-8") as file, torch.no_grad():
        for row in tqdm(rows, file=sys.stderr, desc="scores"):
            try:
                score = _score(model, tokenizer, device, row)
            except ValueError as error:
                sys.stderr.write(f"{error}\n")
                return 1
            file.write(json.dumps({"key": row["key"], "score": score}) + "\n")
            file.flush()
    return 0


def _score(model: Any, tokenizer: Any, device: Any, row: dict[str, Any]) -> float:
    if row["kind"] == "prm":
        asked, good, bad = verdict_tokens(tokenizer, row["prompt"])
        last = _log_probabilities(model, device, asked)[-1]
        return float(last[good] - last[bad])
    answer = [{"role": "assistant", "content": row["answer"]}]
    asked, wanted = answer_tokens(tokenizer, row["prompt"], answer, ends=False)
    policy = _sum_answer(model, device, asked, wanted)
    with model.disable_adapter():
        reference = _sum_answer(model, device, asked, wanted)
    return BETA * (policy - reference)


def _log_probabilities(model: Any, device: Any, tokens: Sequence[int]) -> Any:
    import torch

    logits = model(input_ids=torch.tensor([list(tokens)], device=device)).logits[0]
    return torch.log_softmax(logits.float(), dim=-1)


def _sum_answer(model: Any, device: Any, asked: Sequence[int], answer: Sequence[int]) -> float:
    found = _log_probabilities(model, device, [*asked, *answer])
    first = len(asked) - 1
    return float(sum(found[first + at][token] for at, token in enumerate(answer)))


def _read_lines(path: Path) -> list[str]:
    """The whole lines of a file; a killed process can leave half a line at its end."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    return whole.splitlines()
