"""Writes the list prices of hosted models into `pipeline/models/prices.json`.

    pip download --no-deps litellm && python deploy/update_prices.py litellm-*.whl

LiteLLM (https://github.com/BerriAI/litellm) collects the prices that providers publish, with the
page that each was taken from. What the file says of models by hand, such as a window, stays.
"""

import json
import re
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

TABLE: Final = Path(__file__).parents[1] / "pipeline/models/prices.json"
PRICES: Final = "litellm/model_prices_and_context_window_backup.json"
PROVIDERS: Final = (
    *("anthropic", "openai", "gemini", "deepseek", "mistral", "xai", "moonshot", "zai"),
    *("dashscope", "groq"),
)
"""Those whose own service we name a model of; of one name at several, the dearest price counts."""
LEFT_OUT: Final = re.compile(
    r"\d{4}-\d\d-\d\d|\d{8}|preview|audio|image|live|tts|realtime|vision|embed|search|latest|ft:"
    r"|moderation|experimental|beta|guard|gpt-3|gpt-4$|gpt-4-|-vl-|omni|multi-agent|gv2|cli|turbo"
    r"|rosalind|cyber|-law|tiny|moonshot-v1|-exp\b|/.*/|gemma|voxtral|^o1|^(o|gpt).*-pro$"
)
LONG_PROMPT: Final = 200_000
"""Tokens, more than we send. A price that rises from here on only limits the window."""


def main(wheel: str) -> None:
    """Rewrite the table from LiteLLM's list in `wheel`."""
    with zipfile.ZipFile(wheel) as archive:
        listed: dict[str, dict[str, Any]] = json.loads(archive.read(PRICES))
    table = json.loads(TABLE.read_bytes())
    models: dict[str, Any] = {}
    for key, facts in listed.items():
        provider = str(facts.get("litellm_provider"))
        name = key.removeprefix(f"{provider}/")
        if provider in PROVIDERS and _is_wanted(name, facts):
            entry = _to_entry(provider, facts)
            known = models.get(name)
            if known is None or known["price"]["output"] < entry["price"]["output"]:
                models[name] = entry
    for name, entry in table["models"].items():
        listing = models.get(name, entry)
        models[name] = {**entry, "price": listing["price"], "vision": listing.get("vision", False)}
    table["models"] = dict(sorted(models.items()))
    table["date"] = f"{datetime.now(UTC):%Y-%m}"
    version = Path(wheel).name.split("-")[1]
    table["source"] = (
        f"LiteLLM {version} (https://pypi.org/project/litellm/{version}/), which collects the list"
        " prices that providers publish: standard tier, in US dollars per million tokens. Copied by"
        " deploy/update_prices.py; compare with your provider's page before you rely on them."
    )
    dearest = max(entry["price"]["output"] for entry in models.values())
    if table["unknown"]["price"]["output"] <= dearest:
        raise SystemExit(f"The price of unknown models must be above the dearest: ${dearest}.")
    rows = ",\n".join(
        f"    {json.dumps(name)}: {json.dumps(entry)}" for name, entry in table["models"].items()
    )
    rest = {name: value for name, value in table.items() if name != "models"}
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in rest.items()]
    lines.insert(3, f'  "models": {{\n{rows}\n  }}')
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _is_wanted(name: str, facts: dict[str, Any]) -> bool:
    priced = facts.get("input_cost_per_token") and facts.get("output_cost_per_token")
    return bool(
        priced
        and facts.get("mode") in ("chat", "responses")
        and facts.get("max_input_tokens")
        and not LEFT_OUT.search(name)
    )


def _to_entry(provider: str, facts: dict[str, Any]) -> dict[str, Any]:
    tiers = sorted(
        int(match[1]) * 1000
        for name in facts
        if (match := re.fullmatch(r"input_cost_per_token_above_(\d+)k_tokens", name))
    )
    tier = f"_above_{tiers[0] // 1000}k_tokens" if tiers and tiers[0] < LONG_PROMPT else ""
    window = int(facts["max_input_tokens"])
    if tiers and not tier:
        window = min(window, tiers[0])

    def price(name: str, otherwise: float) -> float:
        found = facts.get(f"{name}{tier}") or facts.get(name)
        return round(float(found) * 1_000_000, 6) if found else otherwise

    plain = price("input_cost_per_token", 0)
    entry: dict[str, Any] = {
        "input": plain,
        "output": price("output_cost_per_token", 0),
        "cache_write": price("cache_creation_input_token_cost", plain),
        "cache_read": price("cache_read_input_token_cost", plain),
    }
    if provider == "anthropic":
        entry["cache_write_hour"] = price("cache_creation_input_token_cost_above_1hr", 2 * plain)
    return {
        "price": entry,
        "window": window,
        "max_output": min(int(facts.get("max_output_tokens") or 8192), 64_000),
        "sampling": provider != "anthropic",
        "vision": bool(facts.get("supports_vision")),
    }


if __name__ == "__main__":
    main(sys.argv[1])
