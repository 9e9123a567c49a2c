"""Trains an adapter, or a whole model. `main()` reads `OUT/config.json` and writes
`OUT/training.json`; several processes, one for each GPU, share the work of one call.
"""
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedBaseClass=false

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pipeline.lab.learning.trainer.tokenise import COLUMNS, TOKENS

BETA = 0.5
"""SWE-Reasoner, section 2.2.2; the same as at run time."""
_STEP_ROWS = 8
"""Rows of a step, over all processes, unless they take more at once."""
_FSDP = {"cpu_ram_efficient_loading": True, "state_dict_type": "SHARDED_STATE_DICT"}
"""How several processes share the weights (FSDP2), and save them and the optimizer's state."""
_RATES = {"policy": 1e-4, "prm": 1e-4, "orm": 2e-5}


def main(out: Path) -> int:
    """Train, or go on from the last checkpoint; return the exit code."""
    config: dict[str, Any] = json.loads((out / "config.json").read_text(encoding="utf-8"))
    tokens: dict[str, Any] = json.loads((out / TOKENS).read_text(encoding="utf-8"))
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(config["base"])
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    config["max_tokens"] = tokens["max_tokens"]
    sides = {
        side: open_examples(config["kind"], [out / "tokens" / name for name in found["files"]])
        for side, found in tokens["sides"].items()
    }
    stages = tokens["sides"]["train"]["stages"]
    if not sides["train"]:
        sys.stderr.write(
            "No reply to train on has a thought, and the base model thinks: sample with --set "
            "thinking_tokens=8000, or train it not to think, by --set thoughts=false.\n"
            if any(thoughtless for *_, thoughtless in stages.values())
            else f"No row is left to train on: all are longer than {config['max_tokens']} tokens.\n"
        )
        return 1
    report = _train(config, out, tokenizer, sides["train"], sides["test"])
    if not report:
        return 0  # another process writes it
    report |= {
        "kind": config["kind"],
        "base": config["base"],
        "rows": len(sides["train"]),
        "max_tokens": config["max_tokens"],
        "stages": stages,
        "libraries": {name: version(name) for name in ("torch", "transformers", "trl", "peft")},
    }
    scratch = out / ".training.json.tmp"
    scratch.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    scratch.replace(out / "training.json")
    return 0


def open_examples(kind: str, files: Sequence[Path]) -> Any:
    """The examples in Arrow files, which stay on the disk; None if there are none."""
    from datasets import Dataset, concatenate_datasets

    if not files:
        return None
    found = concatenate_datasets([Dataset.from_file(str(file)) for file in files])
    whole = [at for at, length in enumerate(found["length"][:]) if length]
    return found.select(whole).select_columns(["length", *COLUMNS[kind]]) if whole else None


def measure_padding(lengths: Sequence[int], order: Sequence[int], batch: int) -> float:
    """The share of padding in batches of examples with these lengths, taken in that order."""
    taken = [lengths[at] for at in order]
    batches = [taken[at : at + batch] for at in range(0, len(taken), batch)]
    return 1 - sum(taken) / sum(max(one) * len(one) for one in batches)


def group_by_length(lengths: Sequence[int], rows: int) -> list[int]:
    """An order in which the trainer may take examples, `rows` of them in a step of a process."""
    import torch
    from transformers.trainer_pt_utils import LengthGroupedSampler

    chance = torch.Generator()
    return list(LengthGroupedSampler(rows, lengths=list(lengths), generator=chance))


def _train(
    config: dict[str, Any],
    out: Path,
    tokenizer: Any,
    examples: Any,
    held_out: Any,
) -> dict[str, Any]:
    """What was done; empty in all processes but the first."""
    import torch
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM

    gpu = torch.cuda.is_available()
    rank = config["rank"]
    arguments = _arguments(config, out, len(examples), gpu=gpu, evaluates=bool(held_out))
    # Of a checkpoint, its state is written last: one without was cut off.
    whole = (file.parent.name for file in out.glob("checkpoints/checkpoint-*/trainer_state.json"))
    step = max((int(name.rpartition("-")[2]) for name in whole), default=0)
    last = out / f"checkpoints/checkpoint-{step}"
    if step and arguments["fsdp"] is not any(last.glob("pytorch_model_fsdp*")):
        few = "one process" if arguments["fsdp"] else "several processes"
        sys.exit(f"{last} was saved by {few}: go on so (--set processes=N).")
    trainer = _build_trainer(
        config,
        model=AutoModelForCausalLM.from_pretrained(config["base"], **_load_options(config, gpu)),
        train_dataset=examples,
        eval_dataset=held_out,
        processing_class=tokenizer,
        peft_config=None
        if config["full"]
        else LoraConfig(
            r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"
        ),
        arguments=arguments,
    )
    began = time.monotonic()
    trainer.train(resume_from_checkpoint=str(last) if step else None)
    if trainer.is_fsdp_enabled:  # checkpoints are in shards; what is served is whole
        trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")
    trainer.save_model(str(out / "adapter"))
    if not trainer.is_world_process_zero():
        return {}
    tokenizer.save_pretrained(str(out / "adapter"))
    log, args = trainer.state.log_history, trainer.args
    lengths = examples["length"][:]
    order = group_by_length(lengths, args.train_batch_size * args.gradient_accumulation_steps)
    return {
        "steps": trainer.state.global_step,
        "resumed_from": step,
        "seconds": round(time.monotonic() - began, 1),
        "device": torch.cuda.get_device_name() if gpu else "cpu",
        "processes": args.world_size,
        "learning_rate": args.learning_rate,
        "tokens": sum(lengths),
        "padding": round(measure_padding(lengths, order, args.train_batch_size), 3),
        "losses": [[entry["step"], entry["loss"]] for entry in log if "loss" in entry],
        "validation": [[e["step"], e["eval_loss"]] for e in log if "eval_loss" in e],
    }


def _load_options(config: dict[str, Any], gpu: bool) -> dict[str, Any]:
    import torch

    dtype = torch.bfloat16 if gpu else torch.float32
    if not config["four_bit"]:
        return {"dtype": dtype}
    from transformers import BitsAndBytesConfig

    # QLoRA (arXiv 2305.14314); stored in the type of the rest, which FSDP asks for.
    quantised = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype, bnb_4bit_quant_storage=dtype,
    )  # fmt: skip
    return {"dtype": dtype, "quantization_config": quantised}


def _arguments(
    config: dict[str, Any], out: Path, count: int, *, gpu: bool, evaluates: bool
) -> dict[str, Any]:
    from accelerate import PartialState
    from accelerate.utils import enable_fsdp_ram_efficient_loading

    processes = PartialState(cpu=not gpu).num_processes
    if processes > 1:
        enable_fsdp_ram_efficient_loading()
    at_once = config["batch"] * processes
    accumulated = max(1, _STEP_ROWS // at_once)
    total = max(1, -(-count // (at_once * accumulated)) * config["epochs"])
    return {
        "output_dir": str(out / "checkpoints"),
        "num_train_epochs": config["epochs"],
        "learning_rate": config["learning_rate"] or _RATES[config["kind"]],
        "per_device_train_batch_size": config["batch"],
        "per_device_eval_batch_size": config["batch"],
        "eval_strategy": "epoch" if evaluates else "no",
        "gradient_accumulation_steps": accumulated,
        "gradient_checkpointing": gpu,
        "warmup_steps": total // 20,
        "lr_scheduler_type": "cosine",
        "max_length": config["max_tokens"],
        "train_sampling_strategy": "group_by_length",
        "remove_unused_columns": False,  # which would remove the lengths
        "save_strategy": "steps",
        "save_steps": max(1, min(50, total // 10)),
        "save_total_limit": 2,
        "logging_steps": 1,
        "report_to": config["report_to"],
        "fsdp": processes > 1,
        "fsdp_config": dict(_FSDP),
        "bf16": gpu,
        "use_cpu": not gpu,
        "dataloader_pin_memory": gpu,
        "seed": 0,
    }


def _build_trainer(config: dict[str, Any], *, arguments: dict[str, Any], **given: Any) -> Any:
    if config["kind"] != "orm":
        from trl import SFTConfig, SFTTrainer

        args = SFTConfig(**arguments, dataset_kwargs={"skip_prepare_dataset": True})
        _share_on_cpus(args)
        return SFTTrainer(args=args, **given)
    from trl import DPOConfig, DPOTrainer

    class ServedTokensTrainer(DPOTrainer):
        """Takes tokens as they are: TRL would add the end of a turn, which no score reads."""

        def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
            return dataset

    # Before the weights are shared, only the first process has them all.
    args = DPOConfig(**arguments, beta=BETA, precompute_ref_log_probs=not arguments["fsdp"])
    _share_on_cpus(args)
    return ServedTokensTrainer(args=args, **given)


def _share_on_cpus(args: Any) -> None:
    """Let processes on CPUs share the weights as those on GPUs: a dry run, which Accelerate leaves
    out for CPUs."""
    from accelerate import DistributedType

    if args.use_cpu and args.fsdp:
        args.distributed_state.distributed_type = DistributedType.MULTI_GPU
