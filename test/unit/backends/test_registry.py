"""Backends by name: what is installed, what is not, what is missing, and the options that others declare."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from builders.plans import rover
from case_tables import each_case
from foreign_plugins import install_plugin
from usd_ros_bridge.backends import registry
from usd_ros_bridge.backends.backend_options import BUILT_IN_BACKENDS as INFOS
from usd_ros_bridge.backends.null import NullBackend
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.runtime.runtime import Runtime

WITHOUT_ENGINE = {"null", "kinematic", "playback", "joint_states"}
ENGINE = """
    from dataclasses import dataclass, field
    from typing import Literal
    from usd_ros_bridge.backends.null import NullBackend

    @dataclass(frozen=True)
    class EngineOptions:
        amplitude: float = field(default=0.1, metadata={"help": "height of a wave, m"})
        waves: int = 3
        solver: Literal["fast", "exact"] = "fast"
        damped: bool = True
        device: str | None = None

        def __post_init__(self) -> None:
            if self.waves < 1:
                raise ValueError("waves is at least 1")

    class Engine(NullBackend):
        option_type = EngineOptions

        def open(self, context):
            self.values = context.values
            super().open(type(context)(plan=context.plan, report=context.report))
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of `sys.path` for distributions of this test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def install(site: Path, value: str, **modules: str) -> None:
    install_plugin(site, "engines", entry_points={"backends": {"other": value}}, modules=modules)


def test_the_built_in_backends_are_rows_of_the_registry() -> None:
    assert set(INFOS) == {each.name for each in registry.BACKENDS.entries() if each.builtin}
    for name in WITHOUT_ENGINE:
        assert type(registry.load_backend(name)).__module__ == f"usd_ros_bridge.backends.{name}"
        assert registry.backend_fault(name) == ""


def test_a_backend_passes_through() -> None:
    backend = NullBackend()
    assert registry.load_backend(backend) is backend


def test_an_unknown_name_lists_what_is_possible() -> None:
    with pytest.raises(
        BackendError, match=r"'nope' is not installed; there are: joint_states, kinematic, .*playb"
    ):
        registry.load_backend("nope")


def test_another_distributions_backend_comes_through_the_same_door(site: Path) -> None:
    install(site, "engine_of_others:Engine", engine_of_others=ENGINE)
    assert "other" in registry.backend_names()
    assert "engine_of_others" not in sys.modules
    assert type(registry.load_backend("other")).__name__ == "Engine"
    assert registry.backend_fault("other") == ""


@pytest.mark.parametrize(
    ("value", "text", "message"),
    [
        (
            "engine_that_is_missing.sub:Engine",
            "",
            "^backend 'other' of engines 1.0 is disabled: no module engine_that_is_missing$",
        ),
        ("engine_a:Nope", "", "^backend 'other' of engines 1.0 is disabled: engine_a:Nope does not exist$"),
        ("engine_b:VALUE", "VALUE = 3", "is disabled: it is a int, and must be a class"),
        ("engine_c:Engine", "raise RuntimeError('out of order')", "is disabled: RuntimeError: out of order"),
        ("usd_ros_bridge.backends.kinematic:MimicRules", "", "cannot be made: TypeError"),
        (
            "types:SimpleNamespace",
            "",
            "is no backend: it has no capabilities, open, inputs, receive, step, reset, close",
        ),
        (
            "engine_d:Engine",
            ENGINE.replace("waves: int = 3", "waves: list[int] = field(default_factory=list)"),
            "EngineOptions.waves is none of bool, int, float, str and a Literal of texts",
        ),
        (
            "engine_e:Engine",
            ENGINE.replace("amplitude: float = field(default=0.1, ", "amplitude: float = field("),
            "EngineOptions.amplitude has no default: every option of a backend has one",
        ),
    ],
)
def test_what_cannot_be_loaded_says_why(site: Path, value: str, text: str, message: str) -> None:
    install(
        site,
        value,
        **{value.partition(":")[0]: text} if value.startswith("engine_") and "." not in value else {},
    )
    with pytest.raises(BackendError, match=message) as caught:
        registry.load_backend("other")
    assert "\n" not in str(caught.value)
    assert registry.backend_fault("other") == str(caught.value)


# --- Options that others declare -----------------------------------------------------------------------------------


def open_with(**options: str) -> object:
    """Open the backend `other` in a runtime, and return the values of its options."""
    backend = registry.load_backend("other")
    with Runtime(rover().build(), backend, options=BridgeOptions(backend_options=options)) as runtime:
        assert runtime.tick(1)
        return backend.values  # type: ignore[attr-defined]


OWN = "its options: amplitude, damped, device, solver, waves"


@pytest.fixture
def engine(site: Path) -> None:
    install(site, "engine_with_options:Engine", engine_with_options=ENGINE)


@pytest.mark.usefixtures("engine")
def test_declared_options_are_parsed_into_the_dataclass() -> None:
    values = open_with()
    assert repr(values) == ("EngineOptions(amplitude=0.1, waves=3, solver='fast', damped=True, device=None)")
    values = open_with(amplitude="0.25", waves="5", solver="exact", damped="no", device="cuda:0")
    assert repr(values) == (
        "EngineOptions(amplitude=0.25, waves=5, solver='exact', damped=False, device='cuda:0')"
    )


@pytest.mark.usefixtures("engine")
@each_case(
    ("key", "text", "message"),
    [
        ("amplitud", "1", "backend other has no option 'amplitud'; did you mean amplitude? " + OWN),
        ("remap", "1", "backend other has no option 'remap'; it is an option of playback; " + OWN),
        ("amplitude", "much", "option amplitude of backend other is 'much', but must be a number"),
        ("amplitude", "nan", "option amplitude of backend other is 'nan', but must be a number"),
        ("waves", "1.5", "option waves of backend other is '1.5', but must be a whole number"),
        ("solver", "slow", "option solver of backend other is 'slow', but must be one of fast, exact"),
        ("damped", "maybe", "option damped of backend other is 'maybe', but must be true or false"),
        ("waves", "0", "the options of backend other are not possible: waves is at least 1"),
    ],
)  # fmt: skip
def test_a_mistyped_option_is_refused_by_name(key: str, text: str, message: str) -> None:
    with pytest.raises(BackendError) as caught:
        open_with(**{key: text})
    assert str(caught.value) == message


@pytest.mark.usefixtures("engine")
def test_an_option_of_others_is_named_where_a_built_in_backend_gets_it() -> None:
    registry.load_backend("other")
    with pytest.raises(BackendError, match="it is an option of other; its options: none"):
        Runtime(rover().build(), NullBackend(), options=BridgeOptions(backend_options={"waves": "2"})).open()


@pytest.mark.usefixtures("engine")
def test_declared_options_are_listed() -> None:
    found = registry.backend_options_of("other")
    assert [(name, each.kind, each.default, each.help) for name, each in found.items()] == [
        ("amplitude", "number", "0.1", "height of a wave, m"),
        ("waves", "whole number", "3", ""),
        ("solver", "choice", "fast", ""),
        ("damped", "bool", "True", ""),
        ("device", "text", "none", ""),
    ]
