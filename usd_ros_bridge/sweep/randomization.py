"""Randomisation: the numbers of a run. They depend on the run's seed and on the place in the sweep, on nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from usd_ros_bridge.errors import OptionError, quoted
from usd_ros_bridge.sweep.distributions import Scalar
from usd_ros_bridge.sweep.sweep_description import Randomization, is_distribution
from usd_ros_bridge.usd.session import Override, OverrideTarget

RANDOMIZATION_STREAM: Final = 1
DRIVER_STREAM: Final = 2


def run_generator(seed: int, *stream: int) -> np.random.Generator:
    """Return the generator of a purpose in a run.

    Args:
        seed: Of the run.
        stream: Purpose, and the place within it: other places have independent numbers.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=stream))


class Draws:
    """Draw the values of a run's randomisation.

    Attributes:
        drawn: Values from distributions, by name.
    """

    def __init__(self, seed: int) -> None:
        """Args: seed: Of the run."""
        self.drawn: dict[str, Scalar] = {}
        self._seed = seed

    def overrides(
        self, row: int, randomization: Randomization, targets: Sequence[OverrideTarget]
    ) -> list[Override]:
        """Return the overrides of a randomisation.

        Args:
            row: Its place in the sweep: entries that are added behind it change nothing of it.
            randomization: With the parameters of the run.
            targets: What it selects.

        Raises:
            OptionError: The value does not fit the operation, or the distribution is not possible.
        """
        generator = run_generator(self._seed, RANDOMIZATION_STREAM, row)
        name = randomization.name or f"{randomization.attribute}({randomization.select})"
        value = randomization.value
        if not randomization.each or not is_distribution(value):
            value = self._draw(value, name, generator)
        found = []
        for target in targets:
            drawn = value
            if is_distribution(value):
                drawn = self._draw(value, f"{name}[{target.prim}]", generator)
            found.append(Override(target=target, operation=randomization.operation, value=drawn))
        return found

    def _draw(self, value: Any, name: str, generator: np.random.Generator) -> Any:
        if is_distribution(value):
            if name in self.drawn:
                raise OptionError(f"two values are named {quoted(name)}: give one of them a name")
            value = self.drawn[name] = value.quantile(generator.random())
        return value
