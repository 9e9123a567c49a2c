"""Prints TRL's own rewards of pairs, as JSON: `[[chosen, rejected], ...]`.

`python FILE ROOT TRAINED ROWS`, by the trainer's Python: TRL evaluates the adapter, which it has
not trained itself, on every pair alone.
"""
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUntypedBaseClass=false

import json
import sys
from pathlib import Path
from typing import Any


def main(root: str, trained: Path, rows: Path) -> None:
    sys.path.append(root)
    import torch
    from datasets import Dataset
    from peft import LoraConfig, load_peft_weights, set_peft_model_state_dict
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import DPOConfig, DPOTrainer

    from pipeline.lab.learning.trainer.train import BETA
    from pipeline.lab.learning.trainer.train_tokens import preference_example

    class OurTokens(DPOTrainer):
        def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
            return dataset

    adapter = trained / "adapter"
    base = json.loads((trained / "training.json").read_text(encoding="utf-8"))["base"]
    tokenizer = AutoTokenizer.from_pretrained(adapter)
    pairs = [preference_example(tokenizer, json.loads(row)) for row in rows.open(encoding="utf-8")]
    trainer = OurTokens(
        model=AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
        args=DPOConfig(
            output_dir=str(trained / "trl"), beta=BETA, use_cpu=True, report_to=[], bf16=False,
            per_device_eval_batch_size=1, max_length=None, dataloader_pin_memory=False,
            disable_tqdm=True, gradient_checkpointing=False,
        ),
        train_dataset=Dataset.from_list(pairs),
        processing_class=tokenizer,
        peft_config=LoraConfig.from_pretrained(adapter),
    )  # fmt: skip
    set_peft_model_state_dict(trainer.model, load_peft_weights(str(adapter), device="cpu"))
    found: list[list[float]] = []
    for pair in pairs:
        told = trainer.evaluate(Dataset.from_list([pair]))
        found.append([told["eval_rewards/chosen"], told["eval_rewards/rejected"]])
    sys.stdout.write("\n" + json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
