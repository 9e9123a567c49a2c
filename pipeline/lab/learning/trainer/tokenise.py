"""Tokenises the rows of a training once, into Arrow files that its processes map into memory.

`main()` reads `OUT/config.json` and writes `OUT/tokens/` and at last `OUT/tokens.json`.
"""
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.lab.learning.trainer.train_tokens import (
    Example,
    conversation_examples,
    count_tokens,
    may_think,
    preference_example,
    verdict_example,
    verdict_tokens,
)

TOKENS = "tokens.json"
COLUMNS = {
    "policy": ("input_ids", "labels"),
    "prm": ("input_ids", "labels"),
    "orm": ("prompt_ids", "chosen_ids", "rejected_ids"),
}
_COUNTS = ("kept", "too_long", "thoughtless", "length")
_AT_ONCE = 1000
"""With fewer rows, processes of their own are not worth their start."""


def main(out: Path) -> int:
    """Tokenise both sides, or what a call that was killed left over; return the exit code."""
    config: dict[str, Any] = json.loads((out / "config.json").read_text(encoding="utf-8"))
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(config["base"])
    if not tokenizer.chat_template:
        sys.stderr.write(f"{config['base']} has no chat template: use an instruct model.\n")
        return 1
    config["max_tokens"] = config["max_tokens"] or _find_window(config["base"])
    if not config["full"] and (experts := _find_experts(config["base"])):
        sys.stderr.write(
            f"{config['base']} has experts that no adapter reaches ({experts}): train all weights "
            "of a policy by --set full=true, or use a model without experts.\n"
        )
        return 1
    folder = out / "tokens"
    try:
        folder.mkdir(exist_ok=True)
        for left in folder.glob("tmp*"):
            left.unlink()  # of a call that was killed
        sides = {side: _tokenise(tokenizer, config, side, folder) for side in ("train", "test")}
        text = json.dumps({"max_tokens": config["max_tokens"], "sides": sides}, indent=1) + "\n"
        scratch = out / f".{TOKENS}.tmp"
        scratch.write_text(text, encoding="utf-8")
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except (RuntimeError, ConnectionError, EOFError) as error:  # as `datasets` finds it
        sys.stderr.write(f"A process that tokenised was ended, as where memory is short: {error}\n")
        return 1
    except OSError as error:
        free = shutil.disk_usage(out).free / 1e9
        sys.stderr.write(
            f"The tokens cannot be written to {folder}, which has {free:.1f} GB left: {error}\n"
        )
        return 1
    scratch.replace(out / TOKENS)
    return 0


def _find_window(base: str) -> int:
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(base)
    return int(config.get_text_config().max_position_embeddings)


def _find_experts(base: str) -> str:
    """The first of the model's weights that hold several experts at once; empty without any.

    `all-linear` finds none of them, since they are no linear layers.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(base)
    if not any("experts" in name for name in config.get_text_config().to_dict()):
        return ""
    import torch

    with torch.device("meta"):
        weights = AutoModelForCausalLM.from_config(config).named_parameters()
    return next((name for name, one in weights if ".experts." in name and one.ndim > 2), "")


def _tokenise(tokenizer: Any, config: dict[str, Any], side: str, folder: Path) -> dict[str, Any]:
    """The Arrow files of one side, and by stage how many replies, or rows of a reward model, were
    kept, are too long, and lack a thought: cut ones would lose their answers."""
    from datasets import Dataset, Features, List, Value

    rows = Path(config["rows"])
    places = list(_find_rows(rows, side))
    if not places:
        return {"files": [], "stages": {}}
    if config["kind"] == "prm":
        verdict_tokens(tokenizer, _read_row(rows, places[0])["prompt"])
    thinks = config["kind"] == "policy" and may_think(tokenizer)
    columns = COLUMNS[config["kind"]]

    def tokenise(batch: Mapping[str, Sequence[int]]) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {name: [] for name in ("stage", *_COUNTS, *columns)}
        for place in batch["at"]:
            row = _read_row(rows, place)
            examples, *counts = _list_examples(tokenizer, config, row, thinks=thinks)
            for example in examples or [{}]:
                length = count_tokens(example) if example else 0
                told = dict(zip(_COUNTS, (*counts, length), strict=True))
                stage = row.get("stage") or row.get("level") or "edit"
                for name, values in found.items():
                    values.append(stage if name == "stage" else {**told, **example}.get(name, []))
                counts = [0] * len(counts)
        return found

    made = Dataset.from_dict({"at": places}).map(
        tokenise,
        batched=True,
        batch_size=16,
        remove_columns=["at"],
        features=Features(
            {"stage": Value("string")}
            | {name: Value("int32") for name in _COUNTS}
            | {name: List(Value("int32")) for name in columns}
        ),
        num_proc=len(os.sched_getaffinity(0)) if len(places) > _AT_ONCE else None,
        cache_file_name=str(folder / f"{side}.arrow"),
        new_fingerprint=config["digest"][:32],
        desc=f"Tokenising for {side}",
    )
    stages: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    told = made.select_columns(["stage", *_COUNTS[:3]])
    for batch in told.iter(10_000):
        for stage, *counts in zip(*(batch[name] for name in told.column_names), strict=True):
            stages[stage] = [a + b for a, b in zip(stages[stage], counts, strict=True)]
    return {"files": [Path(file["filename"]).name for file in made.cache_files], "stages": stages}


def _find_rows(path: Path, side: str) -> Iterator[int]:
    """Where each row of one side begins."""
    with path.open("rb") as file:
        place = 0
        for line in file:
            if line.strip() and json.loads(line)["split"] == side:
                yield place
            place += len(line)


def _read_row(path: Path, place: int) -> dict[str, Any]:
    with path.open("rb") as file:
        file.seek(place)
        return json.loads(file.readline())


def _list_examples(
    tokenizer: Any, config: dict[str, Any], row: dict[str, Any], *, thinks: bool
) -> tuple[list[Example], int, int, int]:
    """The row's examples; how many of its replies they hold, are too long, and lack a thought."""
    most = config["max_tokens"]
    if config["kind"] == "policy":
        return conversation_examples(
            tokenizer, row, most, thinks=thinks, thoughts=config["thoughts"]
        )
    make = preference_example if config["kind"] == "orm" else verdict_example
    example = make(tokenizer, row)
    fits = count_tokens(example) <= most
    return [example] if fits else [], int(fits), int(not fits), 0
