"""`capuchin evaluate INSTANCES --trees DIR`: does the context contain the files to edit?"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from bot.runner.models import build_ranker
from bot.safe_text import printable
from bot.settings import Settings
from pipeline.context.retrieval.embeddings import EmbeddingRanker
from pipeline.data.types import Usage
from pipeline.lab.dataset import BadData, LocatedInstance, read_rows
from pipeline.lab.recall import (
    CannotMeasure,
    Recall,
    RecallCase,
    compute_recall,
    measure_case,
    render_markdown,
    render_svg,
)
from pipeline.models.base import Model, ModelMisconfigured
from pipeline.models.factory import build_model
from pipeline.models.metering import Ledger, Meter
from pipeline.models.spec import parse_spec
from pipeline.models.wrappers import ConcurrencyWindow, MeteredModel, ThrottledModel
from pipeline.run_errors import OtherFormat
from pipeline.store import DirStore
from sandbox.scratch import scratch_folder


async def measure_recall(
    instances: Path, trees: Path, out: Path | None, settings: Settings
) -> Recall:
    """Measure the recall over `instances` whose trees are in `trees`; print progress on stderr.

    The scout model's verdicts are saved in `out`, so that a second call continues.

    Raises:
        BadData: the instances cannot be read, or no instance has a tree.
        ModelError: the scout model failed.
    """
    rows = await asyncio.to_thread(_read_instances, instances, trees)
    cases: list[RecallCase] = []
    missing: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(scratch_folder("recall"))
        meter = Meter(DirStore(folder), math.inf, Ledger())
        scout = _build_scout(settings, stack, meter)
        ranker = _build_ranker(settings, stack)
        store = (out / "verdicts") if out else folder
        for number, row in enumerate(rows, 1):
            sys.stderr.write(f"{number} of {len(rows)}: {row.instance_id}\n")
            try:
                cases.append(await measure_case(row, trees, scout, DirStore(store), ranker))
            except OtherFormat as error:
                raise BadData(f"{store}: {error}") from None
            except CannotMeasure as why:
                missing[row.instance_id] = str(why)
    if not cases:
        first = next(iter(missing.values()))
        raise BadData(f"None of the {len(rows)} instances can be measured. The first one: {first}")
    used = sum((account.usage for account in meter.accounts()), Usage())
    if tokens := used.input + used.cache_write + used.output:  # the cache's need no computing
        speed = tokens / sum(case.scan_seconds for case in cases)
        sys.stderr.write(f"The scout's server processed {speed:,.0f} tokens per second.\n")
    return compute_recall(cases, missing)


def _read_instances(instances: Path, trees: Path) -> tuple[LocatedInstance, ...]:
    if not trees.is_dir():
        raise BadData(f"{trees} is not a directory: give a folder of bare clones.")
    return read_rows(instances, LocatedInstance)


def write_recall(found: Recall, out: Path | None, *, as_json: bool) -> None:
    """Write recall.json, recall.md and recall.svg into `out`.

    Raises:
        OSError: a file cannot be written.
    """
    text = json.dumps(found.model_dump(mode="json"), indent=1) + "\n"
    if out:
        out.mkdir(parents=True, exist_ok=True)
        (out / "recall.json").write_text(text, encoding="utf-8")
        (out / "recall.md").write_text(render_markdown(found), encoding="utf-8")
        (out / "recall.svg").write_text(render_svg(found), encoding="utf-8")
        sys.stderr.write(f"See {out}/recall.md.\n")
    if as_json:
        sys.stdout.write(text)
    elif not out:
        sys.stdout.write(printable(render_markdown(found)))


def _build_ranker(settings: Settings, stack: AsyncExitStack) -> EmbeddingRanker | None:
    try:
        return build_ranker(stack, settings)
    except ModelMisconfigured as error:
        raise BadData(str(error)) from None


def _build_scout(settings: Settings, stack: AsyncExitStack, meter: Meter) -> Model | None:
    if not settings.scout_model:
        sys.stderr.write("CAPUCHIN_SCOUT_MODEL is not set: measuring only the keyword search.\n")
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
    window = ConcurrencyWindow(settings.scout_concurrency)
    return ThrottledModel(MeteredModel(client, meter), window)
