"""A tiny model learns by GRPO, by the script of docs/learning.md, from real containers' rewards."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.certificates import host_certificates
from tests.support.door import IDS, serve, write_instances


async def test_a_policy_learns_what_tests_reward(
    base_model: Path, tmp_path: Path, trainer_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if certificates := host_certificates():
        monkeypatch.setenv("CAPUCHIN_BUILD_CA_BUNDLE", certificates)
    page = (Path(__file__).parents[2] / "docs/learning.md").read_text(encoding="utf-8")
    script = tmp_path / "grpo.py"
    text = page.partition("<!-- tests/learn/test_grpo.py runs this -->\n```python\n")[2]
    script.write_text(text.partition("```\n")[0], encoding="utf-8")
    async with serve(await write_instances(tmp_path), tmp_path / "trees") as door:
        process = await asyncio.create_subprocess_exec(
            trainer_python, str(script), str(base_model),
            str(door.base_url).rstrip("/"), IDS[0], str(tmp_path / "out"),
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said, _ = await process.communicate()
    assert process.returncode == 0
    told = json.loads(said.decode().splitlines()[-1])
    assert len(told["rewards"]) == 48
    assert set(told["rewards"]) == {0.0, 1.0}
    assert told["before"] < 0.5 < told["after"]
