"""`capuchin evaluate INSTANCES --trees DIR`: does the context hold what must be edited?"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from bot.cli.terminal import printable
from bot.runner.models import meaning_of
from bot.settings import Settings
from pipeline.context.search.embeddings import Meaning
from pipeline.evaluation.dataset import BadData, Located, read_located
from pipeline.evaluation.recall import (
    Case,
    Recall,
    Unmeasured,
    as_markdown,
    as_svg,
    case_of,
    recall_of,
)
from pipeline.models.base import Model, ModelMisconfigured
from pipeline.models.factory import build_model
from pipeline.models.spec import parse_spec
from pipeline.models.wrappers.adaptive import Adaptive, Window
from pipeline.store import DirStore
from sandbox.scratch import scratch_folder


async def measured(instances: Path, trees: Path, out: Path | None, settings: Settings) -> Recall:
    """The recall over `instances` whose trees are in `trees`, told on standard error as it goes.

    With the scout of the settings, its verdicts are kept in `out`: started again, it goes on.

    Raises:
        BadData: the instances cannot be read, or no tree is there at all.
    """
    rows = await asyncio.to_thread(_rows, instances, trees)
    cases: list[Case] = []
    missing: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        scout = _scout(settings, stack)
        meaning = _meaning(settings, stack)
        folder = stack.enter_context(scratch_folder("recall"))
        store = (out / "verdicts") if out else folder
        for number, row in enumerate(rows, 1):
            sys.stderr.write(f"{number} of {len(rows)}: {row.instance_id}\n")
            try:
                cases.append(await case_of(row, trees, scout, DirStore(store), meaning))
            except Unmeasured as why:
                missing[row.instance_id] = str(why)
    if not cases:
        first = next(iter(missing.values()))
        raise BadData(f"None of {len(rows)} instances can be measured. The first: {first}")
    return recall_of(cases, missing)


def _rows(instances: Path, trees: Path) -> tuple[Located, ...]:
    if not trees.is_dir():
        raise BadData(f"{trees} is no directory: give a folder of bare clones.")
    return read_located(instances)


def leave(found: Recall, out: Path | None, *, as_json: bool) -> None:
    """recall.json, recall.md and recall.svg in `out`; raises OSError."""
    text = json.dumps(found.model_dump(mode="json"), indent=1) + "\n"
    if out:
        out.mkdir(parents=True, exist_ok=True)
        (out / "recall.json").write_text(text, encoding="utf-8")
        (out / "recall.md").write_text(as_markdown(found), encoding="utf-8")
        (out / "recall.svg").write_text(as_svg(found), encoding="utf-8")
        sys.stderr.write(f"See {out}/recall.md.\n")
    if as_json:
        sys.stdout.write(text)
    elif not out:
        sys.stdout.write(printable(as_markdown(found)))


def _meaning(settings: Settings, stack: AsyncExitStack) -> Meaning | None:
    try:
        return meaning_of(stack, settings)
    except ModelMisconfigured as error:
        raise BadData(str(error)) from None


def _scout(settings: Settings, stack: AsyncExitStack) -> Model | None:
    if not settings.scout_model:
        sys.stderr.write("CAPUCHIN_SCOUT_MODEL is not set: only the words are measured.\n")
        return None
    try:
        spec = parse_spec(settings.scout_model)
    except ValueError as error:
        raise BadData(f"CAPUCHIN_SCOUT_MODEL: {error}") from None
    ours = spec.provider == "anthropic"
    key = settings.anthropic_api_key if ours else settings.model_api_key
    base_url = settings.anthropic_base_url if ours else None
    client = build_model(spec, api_key=key.get_secret_value(), base_url=base_url, sdk_retries=0)
    stack.push_async_callback(client.aclose)
    return Adaptive(client, Window(settings.scout_concurrency))
