"""Newton's method for a convex function of several weights, some of which have a given sign."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.floating[Any]]
Slopes = Callable[[Vector], tuple[Vector, Vector]]
"""The gradient, of n, and the Hessian, of n x n, at a point."""

_STEPS = 50
_NEAR = 1e-7
_ROUNDING = 1e-10


def minimum(slopes: Slopes, signs: Sequence[int]) -> Vector:
    """Where the function is least, each weight of its sign: 1 not negative, -1 not positive, 0 any.

    The Hessian must be positive definite. Raises ArithmeticError when 50 steps do not suffice.
    """
    told = np.array(signs)
    weights: Vector = np.zeros(len(told))
    for _ in range(_STEPS):
        slope, bend = slopes(weights)
        moved = quadratic(bend, bend @ weights - slope, told)
        near = np.abs(moved - weights).max(initial=0.0) < _NEAR
        weights = moved
        if near:
            return weights
    raise ArithmeticError(f"no minimum within {_STEPS} steps")


def quadratic(bend: Vector, pull: Vector, signs: Vector) -> Vector:
    """The least `w.bend.w / 2 - pull.w` by signs: active sets (Lawson and Hanson 1974, ch. 23)."""
    weights: Vector = np.zeros(len(pull))
    inside = signs == 0
    while True:
        goal = _within(bend, pull, inside)
        while (wrong := inside & (signs * goal < 0)).any():
            here, there = weights[wrong], goal[wrong]
            weights = weights + float((here / (here - there)).min()) * (goal - weights)
            inside &= (signs == 0) | (signs * weights > _ROUNDING)
            weights = np.where(inside, weights, 0.0)
            goal = _within(bend, pull, inside)
        weights = goal
        gain = np.where(inside, 0.0, signs * (pull - bend @ weights))
        if gain.max(initial=0.0) < _ROUNDING:
            return weights
        inside[int(gain.argmax())] = True


def _within(bend: Vector, pull: Vector, inside: NDArray[np.bool_]) -> Vector:
    chosen = np.flatnonzero(inside)
    goal: Vector = np.zeros(len(pull))
    goal[chosen] = np.linalg.solve(bend[np.ix_(chosen, chosen)], pull[chosen])
    return goal
