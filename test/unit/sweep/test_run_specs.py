"""The runs of a sweep: which parameters and seeds, in which order."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.sweep.distributions import LogUniform, Uniform
from usd_ros_bridge.sweep.run_specs import plan_runs
from usd_ros_bridge.sweep.sweep_description import Sampling, Sweep

pytestmark = pytest.mark.app


def sweep(**fields: Any) -> Sweep:
    """Return a sweep of some asset."""
    return Sweep(**{"name": "s", "asset": "a.usda", "duration": 1.0, **fields})


def points(made: Sweep) -> list[dict[str, Any]]:
    """Return the parameters of all runs."""
    return [dict(run.parameters) for run in plan_runs(made)]


def test_a_grid_has_all_combinations_and_the_last_parameter_changes_fastest() -> None:
    made = sweep(parameters={"a": (1, 2, 3), "b": ("x", "y"), "c": 0.5})
    assert points(made) == [{"a": a, "b": b, "c": 0.5} for a, b in product((1, 2, 3), "xy")]


def test_zip_takes_values_side_by_side() -> None:
    made = sweep(parameters={"a": (1, 2), "b": (3, 4), "c": 5}, sampling=Sampling(method="zip"))
    assert points(made) == [{"a": 1, "b": 3, "c": 5}, {"a": 2, "b": 4, "c": 5}]
    with pytest.raises(OptionError, match=r"parameters\.b: 3 values beside 4"):
        plan_runs(sweep(parameters={"a": (1, 2, 3, 4), "b": (3, 4, 5)}, sampling=Sampling(method="zip")))


def test_a_list_has_the_points_that_it_says() -> None:
    made = sweep(
        parameters={"c": 7}, points=({"a": 1, "b": 2}, {"a": 3, "b": 4}), sampling=Sampling(method="list")
    )
    assert points(made) == [{"c": 7, "a": 1, "b": 2}, {"c": 7, "a": 3, "b": 4}]
    with pytest.raises(OptionError, match=r"points\[1\]: the parameter 'b' is missing"):
        plan_runs(replace(made, points=({"a": 1, "b": 2}, {"a": 3})))


def test_repeats_are_runs_of_a_point_with_other_seeds() -> None:
    runs = plan_runs(sweep(parameters={"a": (1, 2)}, repeats=3))
    assert [run.parameters["a"] for run in runs] == [1, 1, 1, 2, 2, 2]
    assert [run.index for run in runs] == list(range(6))
    assert len({run.seed for run in runs}) == len({run.id for run in runs}) == 6
    assert all(0 <= run.seed < 2**31 for run in runs)


def test_seeds_are_those_that_numpy_spawns_by_index() -> None:
    runs = plan_runs(sweep(parameters={"a": tuple(range(5))}, seed=12))
    spawned = np.random.SeedSequence(12).spawn(5)
    assert [run.seed for run in runs] == [int(each.generate_state(1)[0]) & 0x7FFFFFFF for each in spawned]
    longer = plan_runs(sweep(parameters={"a": tuple(range(9))}, seed=12))
    assert [run.seed for run in runs] == [run.seed for run in longer[:5]]


@pytest.mark.parametrize("method", ["random", "latin_hypercube", "sobol"])
def test_drawn_points_follow_the_distributions_and_are_repeatable(method: Any) -> None:
    stats = pytest.importorskip("scipy.stats")
    made = sweep(
        parameters={"u": Uniform(0.0, 2.0), "k": 4, "l": LogUniform(0.1, 10.0), "v": ("a", "b")},
        sampling=Sampling(method=method, count=512),
        seed=3,
    )
    found = points(made)
    assert found == points(made)
    assert found != points(replace(made, seed=4))
    assert len(found) == 512
    assert stats.kstest([each["u"] for each in found], stats.uniform(0.0, 2.0).cdf).pvalue > 0.01
    assert stats.kstest([each["l"] for each in found], stats.loguniform(0.1, 10.0).cdf).pvalue > 0.01
    assert {each["k"] for each in found} == {4}
    assert 200 < sum(each["v"] == "a" for each in found) < 312


def test_a_latin_hypercube_has_one_point_in_each_slice() -> None:
    pytest.importorskip("scipy")
    made = sweep(
        parameters={"u": Uniform(0.0, 1.0)}, sampling=Sampling(method="latin_hypercube", count=50), seed=1
    )
    assert sorted(int(each["u"] * 50) for each in points(made)) == list(range(50))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"parameters": {"a": Uniform(0, 1)}}, r"parameters\.a: grid needs values"),
        ({"parameters": {"a": ()}}, r"parameters\.a: there are no values"),
        ({"sampling": Sampling(method="random")}, r"sampling\.count: random needs the number of points"),
        ({"sampling": Sampling(method="list")}, "points: list needs"),
        ({"repeats": 0}, "repeats: 0 is below 1"),
        ({"parameters": {"a": tuple(range(2000)), "b": tuple(range(2000))}}, "4000000 runs are more than"),
        (
            {"parameters": {"a": Uniform(3, 1)}, "sampling": Sampling(method="random", count=1)},
            r"parameters\.a: uniform: 3 is above 1",
        ),
    ],
)
def test_an_impossible_sampling_is_refused_in_one_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        plan_runs(sweep(**fields))
    assert "\n" not in str(caught.value)


def test_a_sweep_can_be_pickled_and_its_digest_says_whether_it_is_the_same() -> None:
    made = sweep(parameters={"a": (1, 2), "b": Uniform(0.0, float("inf"))}, directory="/here")
    copy = pickle.loads(pickle.dumps(made))
    assert copy == made
    assert copy.digest() == made.digest() == replace(made, directory="/there").digest()
    assert replace(made, seed=1).digest() != made.digest()
    assert replace(made, parameters={"a": (1, 2)}).digest() != made.digest()


def test_a_parameter_can_be_given_one_value() -> None:
    made = sweep(parameters={"a": (1, 2), "b": (3, 4)}).with_parameters({"a": 9})
    assert points(made) == [{"a": 9, "b": 3}, {"a": 9, "b": 4}]
    with pytest.raises(OptionError, match="there is no parameter 'aa'; did you mean a"):
        made.with_parameters({"aa": 1})
