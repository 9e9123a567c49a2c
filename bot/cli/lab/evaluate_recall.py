"""`capuchin evaluate INSTANCES --trees DIR`: does the context contain the files to edit?"""

import asyncio
import json
import math
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from bot.cli.lab.evaluate_grade import check_trees, write_output
from bot.runner.models import SCOUT_CALLS
from bot.settings import Settings
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
from pipeline.models.base import Model
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
    await asyncio.to_thread(check_trees, trees)
    rows = await asyncio.to_thread(read_rows, instances, LocatedInstance)
    cases: list[RecallCase] = []
    missing: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(scratch_folder("recall"))
        meter = Meter(DirStore(folder), math.inf, Ledger())
        scout = _build_scout(settings, stack, meter)
        store = (out / "verdicts") if out else folder
        for number, row in enumerate(rows, 1):
            sys.stderr.write(f"{number} of {len(rows)}: {row.instance_id}\n")
            try:
                cases.append(await measure_case(row, trees, scout, DirStore(store)))
            except OtherFormat as error:
                raise BadData(f"{store}: {error}") from None
            except CannotMeasure as why:
                missing[row.instance_id] = str(why)
    if not cases:
        first = next(iter(missing.values()))
        raise BadData(f"None of the {len(rows)} instances can be measured. The first: {first}")
    used = sum((account.usage for account in meter.accounts()), Usage())
    if tokens := used.input + used.cache_write + used.output:  # cached ones need no computing
        speed = tokens / sum(case.scan_seconds for case in cases)
        sys.stderr.write(f"The scout's server processed {speed:,.0f} tokens per second.\n")
    return compute_recall(cases, missing)


def write_recall(found: Recall, out: Path | None, *, as_json: bool) -> None:
    """Write recall.json, recall.md and recall.svg into `out`; see `write_output`."""
    document = json.dumps(found.model_dump(mode="json"), indent=1) + "\n"
    text = render_markdown(found)
    files = {"recall.json": document, "recall.md": text, "recall.svg": render_svg(found)}
    write_output(out, files, see="recall.md", document=document, text=text, as_json=as_json)


def _build_scout(settings: Settings, stack: AsyncExitStack, meter: Meter) -> Model | None:
    if not settings.scout_model:
        sys.stderr.write("CAPUCHIN_SCOUT_MODEL is not set: measuring only the keyword search.\n")
        return None
    try:
        spec = parse_spec(settings.scout_model)
    except ValueError as error:
        raise BadData(f"CAPUCHIN_SCOUT_MODEL: {error}") from None
    key, base_url = settings.find_key(spec).key, settings.anthropic_base_url
    client = build_model(spec, api_key=key, base_url=base_url, sdk_retries=0)
    stack.push_async_callback(client.aclose)
    window = ConcurrencyWindow(SCOUT_CALLS)
    return ThrottledModel(MeteredModel(client, meter), window)
