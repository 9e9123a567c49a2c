"""Both papers' methods as published, as values of `Options`.

They are controls: `presets.toml` names the section or table of every value. What a paper leaves
open stays as it is.
"""

import tomllib
from collections.abc import Collection
from functools import cache
from importlib.resources import files

from pipeline.data.options import Options


@cache
def read_presets() -> dict[str, dict[str, object]]:
    """The values by strategy and option. Do not change them."""
    text = (files("pipeline.data") / "presets.toml").read_text("utf-8")
    return tomllib.loads(text)


def apply_preset(options: Options, explicit: Collection[str] = ()) -> Options:
    """`options` with the values that its `strategy` stands for; the same for `samples`, `search`
    and None.

    `explicit`: the names of options that somebody set beside the strategy; these stay.
    """
    preset = read_presets().get(options.strategy or "", {})
    values = {name: value for name, value in preset.items() if name not in explicit}
    return Options.model_validate({**options.model_dump(), **values}) if values else options
