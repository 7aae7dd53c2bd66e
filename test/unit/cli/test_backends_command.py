"""`usd_ros_bridge backends`: all backends with their options, and how to install what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("click", reason="click is not installed: make setup")

from cli_calls import call_cli
from hidden_modules import start_without
from usd_ros_bridge.backends import registry
from usd_ros_bridge.backends.backend_options import BUILT_IN_BACKENDS
from usd_ros_bridge.backends.base import parse_options
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.requirements import MUJOCO

COMMAND_LINE = "from usd_ros_bridge.entry_points import usd_ros_bridge; usd_ros_bridge()"


def test_all_backends_are_listed_with_their_options() -> None:
    result = call_cli("backends")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert {line.split()[0] for line in lines if not line.startswith(" ")} == set(registry.backend_names())
    for info in BUILT_IN_BACKENDS.values():
        assert f"  {info.summary}" in lines
        for name, option in info.options.items():
            (line,) = {each for each in lines if each.startswith(f"    {name}  {option.help} (")}
            assert option.possible in line
            assert f"default: {option.default}" in line


@pytest.mark.process
def test_a_backend_that_is_missing_is_listed_with_what_installs_it(tmp_path: Path) -> None:
    result = start_without("mujoco", COMMAND_LINE, "backends", directory=tmp_path)
    assert result.returncode == 0, result.stderr
    assert f"mujoco  not installed: {MUJOCO.remedy}" in result.stdout.splitlines()
    assert "kinematic  installed" in result.stdout.splitlines()
    # Its options are known all the same.
    assert "    dt  length of a step" in result.stdout


@pytest.mark.process
def test_a_backend_that_is_missing_is_refused_with_what_installs_it(tmp_path: Path) -> None:
    code = "from usd_ros_bridge.backends.registry import load_backend; load_backend('mujoco')"
    result = start_without("mujoco", code, directory=tmp_path)
    assert f"backend mujoco cannot be loaded: no module mujoco: {MUJOCO.remedy}" in result.stderr


@pytest.mark.parametrize("name", BUILT_IN_BACKENDS)
def test_the_table_is_what_the_backend_parses(name: str) -> None:
    """A number out of the range that is shown, and a choice that is not listed, are refused."""
    for option, each in BUILT_IN_BACKENDS[name].options.items():
        parsers = {option: each.parse}
        if each.kind == "choice":
            for choice in each.possible.split(", "):
                assert parse_options(name, {option: choice}, parsers) == {option: choice}
        elif each.kind != "text":
            assert each.kind == "bool" or each.possible
        if each.kind != "text":
            with pytest.raises(BackendError):
                parse_options(name, {option: "impossible"}, parsers)


@pytest.mark.process
def test_the_defaults_of_mujoco_are_those_of_its_options() -> None:
    pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")
    from usd_ros_bridge.backends.mujoco.mujoco_options import DEFAULT_TIMESTEP, MujocoOptions

    default = MujocoOptions()
    for name, option in BUILT_IN_BACKENDS["mujoco"].options.items():
        if name in ("dt", "integrator"):
            continue
        parsed = MujocoOptions.parse({name: option.default})
        assert parsed == default, name
    assert BUILT_IN_BACKENDS["mujoco"].options["dt"].default.endswith(f" {DEFAULT_TIMESTEP}")
