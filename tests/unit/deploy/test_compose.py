from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.models.profiles import look_up
from pipeline.models.spec import parse_spec

ROOT = Path(__file__).parents[3]


@pytest.fixture
def flags() -> list[str]:
    compose: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
    return compose["services"]["vllm"]["command"]


def test_vllm_caches_prefixes_and_prefills_in_chunks(flags: list[str]) -> None:
    wanted = {
        "--enable-prefix-caching",
        "--enable-chunked-prefill",
        "--enable-prompt-tokens-details",
    }
    assert wanted <= set(flags)


def test_vllm_takes_prompts_as_long_as_files_are_cut_to(flags: list[str]) -> None:
    given = dict(flag.split("=", 1) for flag in flags if "=" in flag)
    scout = look_up(parse_spec("openai:any@http://vllm:8000/v1"))
    assert int(given["--max-model-len"]) >= scout.profile.window
