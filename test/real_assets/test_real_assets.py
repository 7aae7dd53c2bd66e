"""Real assets, converted by others, in the bridge's MuJoCo: they move as in the engines that they come from.

URDFs are compared with pinocchio, MJCFs with MuJoCo on the original file. Where a converted asset cannot move as its
original does, asset_table.py names the cause: the oracle is changed alike, and the tests hold each change to be needed.
"""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from asset_table import ASSETS
from engine_models import Array, Dynamics, Pair, compile_apart

from usd_ros_bridge.backends.mujoco.compiled_model import compile_model

MAX_PLACE_ERROR = 1e-5
"""m"""
MAX_DYNAMICS_ERROR = 1e-5
"""Relative: see `relative_errors`."""
MAX_SWING_ERROR = 1e-4
"""rad or m after one second"""


def place_error(found: Dynamics, expected: Dynamics) -> float:
    distances = [np.linalg.norm(found.places[name] - place) for name, place in expected.places.items()]
    return float(np.max(distances, initial=0.0))


def relative_errors(found: Dynamics, expected: Dynamics) -> dict[str, float]:
    """Returns the largest errors of the mass matrix and of the forces.

    Everything is taken in units in which the expected mass matrix has ones on its diagonal: radians and metres are
    then alike, and so are heavy and light links. Forces are relative to the greatest one of the state.
    """
    unit = np.sqrt(np.diag(expected.mass_matrix))
    matrix = np.abs(found.mass_matrix - expected.mass_matrix) / np.outer(unit, unit)
    scale = max(float(np.max(np.abs(each) / unit)) for each in (expected.bias, expected.passive))
    return {
        "mass matrix": float(matrix.max()),
        "bias": _force_error(found.bias, expected.bias, unit, scale),
        "passive": _force_error(found.passive, expected.passive, unit, scale),
    }


def _force_error(found: Array, expected: Array, unit: Array, scale: float) -> float:
    return float(np.max(np.abs(found - expected) / unit)) / scale if scale > 0.0 else 0.0


def largest_errors(pair: Pair, variant: str) -> dict[str, float]:
    largest: dict[str, float] = {}
    for sample in pair.oracle.samples(variant):
        found = pair.bridge.dynamics(sample, pair.oracle.rows)
        errors = {"place": place_error(found, sample.expected), **relative_errors(found, sample.expected)}
        for name, error in errors.items():
            # Not max(), which would pass over NaN.
            largest[name] = error if not error <= largest.get(name, 0.0) else largest.get(name, 0.0)
    return largest


def swing_error(pair: Pair, variant: str) -> float:
    found, expected = pair.oracle.swing(variant)
    return float(np.abs(found - expected).max())


def agree(errors: dict[str, float]) -> bool:
    return errors["place"] <= MAX_PLACE_ERROR and all(
        error <= MAX_DYNAMICS_ERROR for name, error in errors.items() if name != "place"
    )


def test_dynamics_are_those_of_the_original(pair: Pair, errors: dict[str, float]) -> None:
    errors.update(largest_errors(pair, "corrected"))
    assert agree(errors), errors


def test_each_difference_is_needed(pair: Pair) -> None:
    differences = ASSETS[pair.name].differences
    if not differences:
        pytest.skip("the converted asset is like its original")
    for index, difference in enumerate(differences):
        variant = f"without {index}"
        moves_alike = agree(largest_errors(pair, variant)) and swing_error(pair, variant) <= MAX_SWING_ERROR
        assert not moves_alike, f"needed no longer: {difference}"


def test_a_free_swing_is_that_of_the_original(pair: Pair, errors: dict[str, float]) -> None:
    errors["swing"] = swing_error(pair, "corrected")
    assert errors["swing"] <= MAX_SWING_ERROR


def test_no_joint_jams(pair: Pair) -> None:
    """After one second of gravity all is where it is without contacts between what a joint moves apart."""
    positions = []
    for compiled in (compile_model(pair.bridge.build()), compile_apart(pair.bridge)):
        model = compiled.model
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)
        data = mujoco.MjData(model)
        compiled.start(data)
        for _ in range(round(1.0 / model.opt.timestep)):
            mujoco.mj_step(model, data)
        positions.append(data.qpos.copy())
    np.testing.assert_allclose(positions[0], positions[1], rtol=0.0, atol=1e-9)
