"""Trains a model by GRPO with the rewards of a door: `python FILE MODEL URL INSTANCE OUT`.

The model says one sign, which takes the place of `-` in a file. Prints the probability of `+`
before and after, and the rewards. Run by the trainer's own Python.
"""
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

import json
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

PATH, PROMPT, SIGNS = "shop/till.py", "The sign in total(a, b): a", ("+", "-")


def main(model: str, url: str, instance: str, out: str) -> None:
    rewards: list[float | None] = []

    def attempt(sign: str) -> float | None:
        def ask(step: str, method: str = "POST", **asked: object) -> dict[str, Any]:
            data, head = json.dumps(asked).encode(), {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{url}{step}", data, head, method=method)
            with urllib.request.urlopen(request, timeout=1800) as answer:
                return json.loads(answer.read() or b"{}")

        place = f"/environments/{ask('/environments', instance_id=instance)['environment']}"
        text = ask(f"{place}/read", path=PATH)["text"].replace("a - b", f"a {sign} b")
        ask(f"{place}/write", path=PATH, text=text)
        ask(f"{place}/submit")
        reward = ask(f"{place}/grade", by="hidden")["reward"]
        ask(place, "DELETE")
        return reward

    def grade(completions: list[str], **_: object) -> list[float | None]:
        with ThreadPoolExecutor(len(completions)) as threads:
            found = list(threads.map(attempt, completions))
        rewards.extend(found)
        return found

    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    signs = [tokenizer.convert_tokens_to_ids(sign) for sign in SIGNS]

    def measure() -> float:
        with torch.no_grad():
            asked = tokenizer(PROMPT, return_tensors="pt")
            logits = policy(input_ids=asked["input_ids"]).logits[0, -1, signs]
        return float(torch.softmax(logits, 0)[0])

    before = measure()
    trainer = GRPOTrainer(
        model=policy,
        reward_funcs=grade,
        args=GRPOConfig(
            output_dir=out, use_cpu=True, bf16=False, report_to=[], disable_tqdm=True, seed=1,
            max_steps=6, learning_rate=0.01, per_device_train_batch_size=8, num_generations=8,
            max_completion_length=1, gradient_checkpointing=False, save_strategy="no",
            # A model of random weights would hardly ever say one of them.
            generation_kwargs={"sequence_bias": [[[sign], 30.0] for sign in signs]},
        ),
        train_dataset=Dataset.from_list([{"prompt": PROMPT}] * 8),
        processing_class=tokenizer,
    )  # fmt: skip
    trainer.train()
    sys.stdout.write("\n" + json.dumps({"before": before, "after": measure(), "rewards": rewards}))


if __name__ == "__main__":
    main(*sys.argv[1:])
