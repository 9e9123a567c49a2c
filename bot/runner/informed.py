"""Gives the models of a run the facts about the environment that they work in."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, cast

from pipeline.environment.facts import EnvironmentFacts, InformedModel
from pipeline.environment.record import EnvironmentRecord
from pipeline.models.base import Model
from pipeline.models.likelihood import Reward
from pipeline.types import NoFix, Selection, replace
from pipeline.workflows.setup import Models

SelectionModels = tuple[Model | None, Reward | None]
"""The solver and the reward model, as far as they are set."""
T = TypeVar("T")
M = TypeVar("M", bound=Models | SelectionModels)


def find_solver(models: Models | SelectionModels) -> Model | None:
    """The solver, if there is one."""
    return models.solver if isinstance(models, Models) else models[0]


def inform_models(models: M, facts: EnvironmentFacts | None) -> M:
    """`models` with a solver that knows `facts`; the scout runs nothing and needs none."""
    solver = find_solver(models)
    if solver is None or facts is None:
        return models
    informed = InformedModel(solver, facts)
    changed: Any = (
        dataclasses.replace(
            models,
            solver=informed,
            solvers={name: InformedModel(one, facts) for name, one in models.solvers.items()},
        )
        if isinstance(models, Models)
        else (informed, models[1])
    )
    return cast(M, changed)


def with_environment(result: T, record: EnvironmentRecord) -> T:
    """`result`; if nothing was found or chosen in a broken environment, it says that first."""
    sentence = record.complaint()
    changed: Any = result
    if sentence and isinstance(result, NoFix):
        changed = replace(result, details=(sentence, *result.details))
    elif sentence and isinstance(result, Selection):
        evidence = result.evidence
        notes = (sentence, *evidence.notes)
        changed = replace(result, evidence=replace(evidence, notes=notes))
    return cast(T, changed)
