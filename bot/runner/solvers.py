"""The solvers that the settings offer, and those that generators name."""

from __future__ import annotations

from collections.abc import Sequence

from bot.settings import Settings, SettingsError
from pipeline.models.base import ModelMisconfigured
from pipeline.models.spec import ModelSpec, parse_spec, parse_specs
from pipeline.options import Options


def check_generators(settings: Settings) -> None:
    """Raises `SettingsError` where a generator names no model, or its key is missing."""
    for text in (one.model for one in settings.generators if one.model):
        try:
            spec = parse_spec(text)
        except ValueError as error:
            raise SettingsError(f"CAPUCHIN_GENERATORS: {error}") from None
        if lacks_key(settings, [spec]):
            raise SettingsError(
                f"ANTHROPIC_API_KEY is not set, and CAPUCHIN_GENERATORS names {text}: every run "
                "would fail. Set the key, or another model."
            )


def find_solvers(settings: Settings, options: Options) -> dict[str, ModelSpec]:
    """The models that the generators of `options` name, by those names.

    A repository's file can name only models of the operator: an address in it would get the
    operator's key and the code.

    Raises:
        ModelMisconfigured: a name is not among them, or the operator's setting names no model.
    """
    texts = [one.model for one in settings.generators if one.model]
    known = [s for text in (settings.solver_model, *texts) for s in parse_solvers(text)]
    offered = {text: parse_spec(text) for text in texts}
    offered |= {spec.name: spec for spec in reversed(known)}
    named = [one.model for one in options.generators if one.model]
    for name in named:
        if name not in offered:
            names = ", ".join(sorted({spec.name for spec in known}))
            raise ModelMisconfigured(
                f"`generators` names the model {name!r}, which CAPUCHIN_SOLVER_MODEL and "
                f"CAPUCHIN_GENERATORS do not offer. They offer {names}."
            )
    return {name: offered[name] for name in named}


def lacks_key(settings: Settings, specs: Sequence[ModelSpec]) -> bool:
    """Whether one of `specs` is Anthropic's own, and its key is not set."""
    theirs = Settings.model_fields["anthropic_base_url"].default == settings.anthropic_base_url
    missing = not settings.anthropic_api_key.get_secret_value()
    return any(spec.provider == "anthropic" for spec in specs) and theirs and missing


def parse_solvers(text: str) -> tuple[ModelSpec, ...]:
    """Raises `ModelMisconfigured` where `text` is no list of models."""
    try:
        return tuple(parse_specs(text))
    except ValueError as error:
        raise ModelMisconfigured(str(error)) from None
