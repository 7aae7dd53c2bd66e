"""The registry of plug-ins: what is found, what is imported when, and how a faulty one disables itself."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from foreign_plugins import install_plugin
from usd_ros_bridge.plugins import (
    PROTOCOL_VERSION,
    Registry,
    _quiet_import,
)


def make_registry() -> Registry[int]:
    return Registry(
        "numbers",
        "number",
        {"one": 1, "two": "plugin_builtin_two:TWO"},
        check=lambda found: "" if isinstance(found, int) else f"it is a {type(found).__name__}, no int",
        spell=lambda name: name.replace(".", "/"),
    )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of `sys.path` for distributions of this test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def install(site: Path, name: str, points: dict[str, str], **modules: str) -> None:
    install_plugin(site, name, entry_points={"numbers": points}, modules=modules)


def test_built_in_and_foreign_entries_are_alike(site: Path) -> None:
    (site / "plugin_builtin_two.py").write_text("TWO = 2\n", encoding="utf-8")
    install(site, "more-numbers", {"three": "plugin_three:THREE"}, plugin_three="THREE = 3\n")
    registry = make_registry()

    assert list(registry) == ["one", "two", "three"]
    assert dict(registry) == {"one": 1, "two": 2, "three": 3}
    entry = registry.entries()[2]
    assert (entry.origin, entry.version, entry.value, entry.builtin) == (
        "more-numbers",
        "1.0",
        "plugin_three:THREE",
        False,
    )
    assert registry.is_foreign("three")
    assert not registry.is_foreign("two")


def test_nothing_is_imported_before_it_is_asked_for(site: Path) -> None:
    install(site, "lazy", {"lazy": "plugin_lazy:VALUE"}, plugin_lazy="VALUE = 4\n")
    registry = make_registry()

    assert registry.names() == ("one", "two", "lazy")
    assert registry.entry("lazy") is not None
    assert registry.get("one") == 1
    assert registry.get("four") is None
    assert "plugin_lazy" not in sys.modules
    assert registry["lazy"] == 4


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("import no_such_module\n", "no module no_such_module"),
        ("raise RuntimeError('out of order')\n", "RuntimeError: out of order"),
        (
            "raise ImportError(\"cannot import name 'x' from 'y'\", name='y')\n",
            "cannot import name 'x' from 'y'",
        ),
        ("VALUE = 'text'\n", "it is a str, no int"),
        ("OTHER = 1\n", "plugin_bad{number}:VALUE does not exist"),
        (
            f"USD_ROS_BRIDGE_PROTOCOL = {PROTOCOL_VERSION + 1}\nVALUE = 1\n",
            "plugin_bad{number} is for version 2 of the plug-in protocols, and this bridge has 1",
        ),
    ],
)
def test_a_faulty_plug_in_disables_itself_with_one_line(
    site: Path, text: str, wanted: str, request: pytest.FixtureRequest
) -> None:
    number = request.node.callspec.indices["text"]
    install(site, "bad", {"bad": f"plugin_bad{number}:VALUE"}, **{f"plugin_bad{number}": text})
    registry = make_registry()

    assert registry.get("bad") is None
    assert "bad" not in registry
    with pytest.raises(KeyError):
        registry["bad"]
    line = registry.fault("bad")
    assert line == f"number 'bad' of bad 1.0 is disabled: {wanted.format(number=number)}"
    assert registry.fault("one") == ""


def test_the_version_of_the_protocols_may_be_named(site: Path) -> None:
    text = f"USD_ROS_BRIDGE_PROTOCOL = {PROTOCOL_VERSION}\nVALUE = 5\n"
    install(site, "named", {"named": "plugin_named:VALUE"}, plugin_named=text)

    assert make_registry()["named"] == 5


def test_what_is_in_memory_is_listed_without_an_import(site: Path) -> None:
    install(site, "held", {"held": "plugin_held:VALUE"}, plugin_held="VALUE = 8\n")
    registry = make_registry()

    assert registry.loaded() == {"one": 1}
    assert registry["held"] == 8
    assert registry.loaded() == {"one": 1, "held": 8}


def test_what_an_entry_raises_later_is_one_line(site: Path) -> None:
    install(site, "late", {"late": "plugin_late_fault:VALUE"}, plugin_late_fault="VALUE = 9\n")
    line = make_registry().failure("late", ValueError("no\ngood"))
    assert line == "number 'late' of late 1.0 failed: ValueError: no good"


def test_a_built_in_name_cannot_be_taken(site: Path) -> None:
    install(site, "thief", {"one": "plugin_thief:VALUE"}, plugin_thief="VALUE = 11\n")
    registry = make_registry()

    assert registry["one"] == 1
    assert [each.conflict for each in registry.entries() if each.name == "one"] == [
        "",
        "the name is built in",
    ]
    assert "plugin_thief" not in sys.modules


def test_of_two_plug_ins_of_a_name_the_first_distribution_counts(site: Path) -> None:
    install(site, "zebra", {"same": "plugin_zebra:VALUE"}, plugin_zebra="VALUE = 26\n")
    install(site, "ant", {"same": "plugin_ant:VALUE"}, plugin_ant="VALUE = 7\n")
    registry = make_registry()

    assert registry["same"] == 7
    assert [(each.origin, each.conflict) for each in registry.entries() if each.name == "same"] == [
        ("ant", ""),
        ("zebra", "ant brings one of this name"),
    ]


def test_names_that_metadata_cannot_hold_are_spelled_otherwise(site: Path) -> None:
    install(site, "typed", {"pkg.msg.Type": "plugin_typed:VALUE"}, plugin_typed="VALUE = 6\n")

    assert make_registry()["pkg/msg/Type"] == 6


def test_a_plugin_may_stand_for_an_entry_in_several_registries(site: Path) -> None:
    install(
        site,
        "pairs",
        {"both": "plugin_pairs:BOTH", "first": "plugin_pairs:FIRST", "kept.x": "plugin_pairs:BOTH"},
        plugin_pairs="BOTH = (1, 2)\nFIRST = (3, None)\n",
    )

    def side(number: int) -> Registry[int]:
        return Registry(
            "numbers",
            "number",
            {"one": 1},
            check=lambda found: "" if isinstance(found, tuple) else "no pair",
            spell=lambda name: "" if name.endswith(".x") else name,
            convert=lambda _, found: found[number],
        )

    first, second = side(0), side(1)
    assert dict(first) == {"one": 1, "both": 1, "first": 3}
    assert second["both"] == 2
    assert second.get("first", 7) == 7
    assert not second.fault("first")
    assert "kept.x" not in first.names()


def test_a_default_gives_way_to_a_plugin_unless_that_has_a_fault(site: Path) -> None:
    install(
        site,
        "ten",
        {"ten": "plugin_ten:VALUE", "nine": "plugin_ten:NONE", "one": "plugin_ten:VALUE"},
        plugin_ten="VALUE = 10\n",
    )
    registry = Registry(
        "numbers", "number", {"one": 1}, check=lambda _: "", defaults={"ten": -10, "nine": -9, "eight": 8}
    )
    assert registry.names() == ("one", "ten", "nine", "eight")
    assert dict(registry) == {"one": 1, "ten": 10, "nine": -9, "eight": 8}
    assert registry.fault("nine") == "number 'nine' of ten 1.0 is disabled: plugin_ten:NONE does not exist"
    assert not registry.fault("eight")
    assert [(each.name, each.builtin, each.conflict) for each in registry.entries()] == [
        ("one", True, ""),
        ("eight", True, ""),
        ("nine", False, ""),
        ("one", False, "the name is built in"),
        ("ten", False, ""),
    ]


def test_streams_are_those_before_however_imports_overlap(monkeypatch, capsys) -> None:
    usual = sys.stdout
    first, second = _quiet_import(), _quiet_import()
    with first:
        print("of the first")
        other = threading.Thread(target=second.__enter__)
        other.start()
        other.join()
        print("still of the first")
    second.__exit__(None, None, None)
    print("of the command")
    captured = capsys.readouterr()
    assert captured.out == "of the command\n"
    assert captured.err == "of the first\nstill of the first\n"
    monkeypatch.setattr(sys, "stdout", usual)
