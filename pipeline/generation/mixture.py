"""Which generator draws which sample."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.options import ONLY_FIXED, Generator


def assign_generators(generators: Sequence[Generator], samples: int) -> list[Generator]:
    """The generator of each sample, from 0: in every prefix as near to the shares as possible.

    So the first wave is stratified. Without generators all samples are `fixed`.
    """
    mixture = tuple(generators) or ONLY_FIXED
    total = sum(generator.share for generator in mixture)
    drawn = [0] * len(mixture)
    order: list[Generator] = []
    for count in range(1, samples + 1):
        missing = [g.share / total * count - drawn[i] for i, g in enumerate(mixture)]
        # Rounded, so that the earlier wins between equal ones.
        chosen = max(range(len(mixture)), key=lambda i: (round(missing[i], 9), -i))
        drawn[chosen] += 1
        order.append(mixture[chosen])
    return order
