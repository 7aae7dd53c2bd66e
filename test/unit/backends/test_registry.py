"""Backends by name: what is installed, what is not, what is missing."""

from __future__ import annotations

import sys
import types
from importlib.metadata import EntryPoint

import pytest

from usd_ros_bridge.backends import registry
from usd_ros_bridge.backends.base import ENTRY_POINT_GROUP
from usd_ros_bridge.backends.null import NullBackend
from usd_ros_bridge.errors import BackendError

BUILT_IN = {"null", "kinematic", "playback", "joint_states"}


def test_the_built_in_backends_are_installed() -> None:
    assert set(registry.backend_names()) >= BUILT_IN
    for name in BUILT_IN:
        assert type(registry.load_backend(name)).__module__ == f"usd_ros_bridge.backends.{name}"


def test_a_backend_passes_through() -> None:
    backend = NullBackend()
    assert registry.load_backend(backend) is backend


def test_an_unknown_name_lists_what_is_possible() -> None:
    with pytest.raises(
        BackendError, match=r"'nope' is not installed; there are: joint_states, kinematic, .*playb"
    ):
        registry.load_backend("nope")


def install(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    entry = EntryPoint(name="other", value=value, group=ENTRY_POINT_GROUP)
    monkeypatch.setattr(
        registry, "entry_points", lambda *, group: [entry] if group == ENTRY_POINT_GROUP else []
    )


def test_another_distributions_backend_comes_through_the_same_door(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("engine_of_others")
    module.Engine = type("Engine", (NullBackend,), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "engine_of_others", module)
    install(monkeypatch, "engine_of_others:Engine")
    assert registry.backend_names() == ("other",)
    assert type(registry.load_backend("other")).__name__ == "Engine"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("engine_that_is_missing.sub:Engine", "module engine_that_is_missing is missing"),
        ("usd_ros_bridge.backends.null:Nope", "usd_ros_bridge.backends.null:Nope does not exist"),
        ("usd_ros_bridge.backends.kinematic:MimicRules", "cannot be made: TypeError"),
        (
            "types:SimpleNamespace",
            "is no backend: it has no capabilities, open, inputs, receive, step, reset, close",
        ),
    ],
)
def test_what_cannot_be_loaded_says_why(monkeypatch: pytest.MonkeyPatch, value: str, message: str) -> None:
    install(monkeypatch, value)
    with pytest.raises(BackendError, match=message) as caught:
        registry.load_backend("other")
    assert "\n" not in str(caught.value)
