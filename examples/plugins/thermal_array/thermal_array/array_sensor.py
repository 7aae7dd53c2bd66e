"""The class that measures."""

from __future__ import annotations

import numpy as np

from usd_ros_bridge import SensorContext, SensorSetup

KELVIN = 273.15


class ThermalArray:
    """Temperatures in degrees Celsius, the top row first. The prim looks along Z, with X to the right and Y down.

    Each pixel averages the radiation of `samples` x `samples` rays. What has no temperature, or is out of range, has
    that of its surroundings.
    """

    def __init__(self, setup: SensorSetup) -> None:
        values = setup.values
        self.shape = values["rows"], values["columns"], values["samples"]
        self.range, self.noise = values["range"], values["noise"]
        self.directions = pixel_directions(*self.shape, field_of_view=values["field_of_view"])
        self.temperatures = setup.of_surfaces("temperature", missing=values["ambient"]) + KELVIN

    def measure(self, context: SensorContext) -> dict[str, np.ndarray]:
        """Return the image of temperatures."""
        rows, columns, samples = self.shape
        hits = context.cast_rays(self.directions, reach=self.range)
        radiation = self.temperatures[hits.surface] ** 4
        pixels = radiation.reshape(rows, samples, columns, samples).mean(axis=(1, 3)) ** 0.25 - KELVIN
        pixels += context.normal(self.noise, pixels.shape)
        return {"data": pixels.astype(np.float32)}


def pixel_directions(rows: int, columns: int, samples: int, *, field_of_view: float) -> np.ndarray:
    """Return the directions (N, 3) of all rays of square pixels; the field of view is horizontal, in radians."""
    size = 2.0 * np.tan(field_of_view / 2.0) / columns
    right = ((np.arange(columns * samples) + 0.5) / samples - columns / 2.0) * size
    down = ((np.arange(rows * samples) + 0.5) / samples - rows / 2.0) * size
    x, y = np.meshgrid(right, down)
    directions = np.stack((x, y, np.ones_like(x)), axis=-1).reshape(-1, 3)
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)
