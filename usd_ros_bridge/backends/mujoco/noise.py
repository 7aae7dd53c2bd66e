"""Noise of sensors: Gaussian, and a function of the seed, the prim and the stamp alone.

What was measured in between, or how often, changes nothing: the same stamp after a reset, or with other subscribers,
shows the same noise.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class Noise:
    """The noise of one sensor."""

    def __init__(self, seed: int, path: str) -> None:
        """Derives the sensor's key.

        Args:
            seed: The bridge's seed.
            path: Prim path of the sensor.
        """
        digest = hashlib.blake2b(f"{seed}:{path}".encode(), digest_size=16).digest()
        self._philox = np.random.Philox(key=int.from_bytes(digest, "little"))
        self._generator = np.random.Generator(self._philox)
        self._state = self._philox.state

    def normal(self, count: int, time_ns: int) -> FloatArray:
        """Returns `count` standard normal numbers of the measurement at `time_ns`."""
        counter = self._state["state"]["counter"]
        # The low word counts within a measurement, the third one says which it is: they never run into each other.
        counter[:] = (0, 0, time_ns, 0)
        self._philox.state = self._state
        return self._generator.standard_normal(count)
