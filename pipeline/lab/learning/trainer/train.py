"""Trains a LoRA adapter. `main()` reads `OUT/config.json` and writes `OUT/training.json`."""
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedBaseClass=false

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pipeline.lab.learning.trainer.train_tokens import (
    completion_example,
    count_tokens,
    preference_example,
    read_rows,
    verdict_tokens,
)

BETA = 0.5
"""SWE-Reasoner, section 2.2.2; the same as at run time."""
RANK = 16
_BATCH, _ACCUMULATED = 2, 4
_RATES = {"policy": 1e-4, "prm": 1e-4, "orm": 2e-5}


def main(out: Path) -> int:
    """Train, or go on from the last checkpoint; return the exit code."""
    config: dict[str, Any] = json.loads((out / "config.json").read_text(encoding="utf-8"))
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(config["base"])
    if not tokenizer.chat_template:
        sys.stderr.write(f"{config['base']} has no chat template: use an instruct model.\n")
        return 1
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    try:
        examples, too_long = _read_examples(tokenizer, config)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if not examples:
        sys.stderr.write(
            f"No row is left to train on: {too_long} are longer than {config['max_tokens']} "
            "tokens.\n"
        )
        return 1
    report = _train(config, out, tokenizer, examples)
    report |= {
        "kind": config["kind"],
        "base": config["base"],
        "rows": len(examples),
        "too_long": too_long,
        "libraries": {name: version(name) for name in ("torch", "transformers", "trl", "peft")},
    }
    scratch = out / ".training.json.tmp"
    scratch.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    scratch.replace(out / "training.json")
    return 0


def _read_examples(tokenizer: Any, config: dict[str, Any]) -> tuple[list[dict[str, Any]], int]:
    """The examples, and how many rows are too long: cut ones would lose their answers."""
    rows = read_rows(Path(config["rows"]), "train")
    kind = config["kind"]
    if kind == "prm" and rows:
        verdict_tokens(tokenizer, rows[0]["prompt"])
    examples = [
        preference_example(tokenizer, row)
        if kind == "orm"
        else completion_example(tokenizer, row, ends=kind == "policy")
        for row in rows
    ]
    kept = [one for one in examples if count_tokens(one) <= config["max_tokens"]]
    return kept, len(examples) - len(kept)


def _train(
    config: dict[str, Any], out: Path, tokenizer: Any, examples: list[dict[str, Any]]
) -> dict[str, Any]:
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM
    from transformers.trainer_utils import get_last_checkpoint

    gpu = torch.cuda.is_available()
    model = AutoModelForCausalLM.from_pretrained(
        config["base"], dtype=torch.bfloat16 if gpu else torch.float32
    )
    trainer = _build_trainer(
        config,
        model=model,
        dataset=Dataset.from_list(examples),
        tokenizer=tokenizer,
        peft_config=LoraConfig(
            r=RANK, lora_alpha=2 * RANK, target_modules="all-linear", task_type="CAUSAL_LM"
        ),
        arguments=_arguments(config, out, len(examples), gpu=gpu),
    )
    last = get_last_checkpoint(str(out / "checkpoints")) if (out / "checkpoints").exists() else None
    began = time.monotonic()
    trainer.train(resume_from_checkpoint=last)
    trainer.save_model(str(out / "adapter"))
    tokenizer.save_pretrained(str(out / "adapter"))
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    return {
        "steps": trainer.state.global_step,
        "resumed_from": int(last.rpartition("-")[2]) if last else 0,
        "seconds": round(time.monotonic() - began, 1),
        "device": torch.cuda.get_device_name() if gpu else "cpu",
        "learning_rate": trainer.args.learning_rate,
        "losses": [[entry["step"], entry["loss"]] for entry in log],
    }


def _arguments(config: dict[str, Any], out: Path, count: int, *, gpu: bool) -> dict[str, Any]:
    total = max(1, -(-count // (_BATCH * _ACCUMULATED)) * config["epochs"])
    return {
        "output_dir": str(out / "checkpoints"),
        "num_train_epochs": config["epochs"],
        "learning_rate": config["learning_rate"] or _RATES[config["kind"]],
        "per_device_train_batch_size": _BATCH,
        "gradient_accumulation_steps": _ACCUMULATED,
        "gradient_checkpointing": gpu,
        "warmup_steps": total // 20,
        "lr_scheduler_type": "cosine",
        "max_length": config["max_tokens"],
        "save_strategy": "steps",
        "save_steps": max(1, min(50, total // 10)),
        "save_total_limit": 2,
        "logging_steps": 1,
        "report_to": [],
        "bf16": gpu,
        "use_cpu": not gpu,
        "dataloader_pin_memory": gpu,
        "seed": 0,
    }


def _build_trainer(
    config: dict[str, Any],
    *,
    model: Any,
    dataset: Any,
    tokenizer: Any,
    peft_config: Any,
    arguments: dict[str, Any],
) -> Any:
    if config["kind"] != "orm":
        from trl import SFTConfig, SFTTrainer

        return SFTTrainer(
            model=model,
            args=SFTConfig(**arguments, completion_only_loss=True, packing=False),
            train_dataset=dataset,
            processing_class=tokenizer,
            peft_config=peft_config,
        )
    from trl import DPOConfig, DPOTrainer

    class ServedTokensTrainer(DPOTrainer):
        """Takes tokens as they are: TRL would add the end of a turn, which no score reads."""

        def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
            return dataset

    return ServedTokensTrainer(
        model=model,
        args=DPOConfig(**arguments, beta=BETA, precompute_ref_log_probs=True),
        train_dataset=dataset,
        processing_class=tokenizer,
        peft_config=peft_config,
    )
