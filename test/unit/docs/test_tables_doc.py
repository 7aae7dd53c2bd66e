"""Tables of the documents against the code's own tables: types, qualities of service, joints, backends, arrays."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from markdown_docs import DOCS, PAGES, ROOT, anchors, codes, links, page_text, rows, section
from usd_ros_bridge.backends import joint_states
from usd_ros_bridge.backends.array import ArrayBackend
from usd_ros_bridge.backends.backend_options import BUILT_IN_BACKENDS as BACKENDS_OF_THE_PACKAGE
from usd_ros_bridge.backends.base import Backend, Capabilities
from usd_ros_bridge.backends.registry import load_backend
from usd_ros_bridge.model.message_types import JOINT_STATE, JOINT_TRAJECTORY, MESSAGE_TYPES
from usd_ros_bridge.model.records import (
    ActionRecord,
    CameraRecord,
    ContextRecord,
    DiffDriveRecord,
    JointTrajectoryRecord,
    TopicRecord,
    attribute_fields,
)
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.options import OPTIONS
from usd_ros_bridge.planning import contexts, interfaces, names, qos
from usd_ros_bridge.planning.kinematics import solver_attributes
from usd_ros_bridge.planning.kinematics.joint_graph import KINDS
from usd_ros_bridge.ranges import RATE
from usd_ros_bridge.ros.codecs import CODECS
from usd_ros_bridge.runtime.inbox import DEFAULT_DEPTH

pytestmark = pytest.mark.docs

INTERFACES = page_text("interfaces.md")
TOPICS = page_text("topics.md")
BACKENDS = page_text("backends.md")
WRITING_A_BACKEND = page_text("writing_a_backend.md")
EMBEDDING = page_text("embedding.md")


# --- Links --------------------------------------------------------------------------------------------------------


def is_alive(page: Path, target: str) -> bool:
    """Whether a relative link leads to a file of the repository, and to a heading of it where it names one."""
    file, _, anchor = target.partition("#")
    path = (page.parent / file if file else page).resolve()
    if not path.exists() or not path.is_relative_to(ROOT):
        return False
    # Headings that the build of the site makes: `mkdocs build --strict` checks links to them.
    return not anchor or "\nThe site has " in path.read_text(encoding="utf-8") or anchor in anchors(path)


def test_links_of_all_pages() -> None:
    """`make docs` checks those between pages of the site; README.md and the like are no pages of it."""
    assert {"README.md", "interfaces.md", "frames.md", "diagnostics.md"} <= {page.name for page in PAGES}
    relative = [(page, target) for page in PAGES for target in links(page) if "://" not in target]
    assert [(page.name, target) for page, target in relative if not is_alive(page, target)] == []


def navigation(entry: Any) -> list[str]:
    """The files of an entry of `nav` in mkdocs.yml, with those of the entries below it."""
    if isinstance(entry, str):
        return [entry]
    below = entry.values() if isinstance(entry, dict) else entry
    return [file for each in below for file in navigation(each)]


def test_the_navigation_leads_to_every_page() -> None:
    (nav,) = re.findall(
        r"^nav:\n(?:[ -].*\n|\n)+", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    files = navigation(yaml.safe_load(nav)["nav"])
    assert sorted(files) == sorted(
        page.relative_to(DOCS).as_posix() for page in PAGES if page.is_relative_to(DOCS)
    )


def test_no_two_pages_have_the_same_file_name() -> None:
    names = [page.name for page in PAGES]
    assert sorted(names) == sorted(set(names))


# --- interfaces.md, topics.md, quality_of_service.md -------------------------------------------------------------


def test_published_and_commanding_types() -> None:
    published, commanding = section(TOPICS, "Publishers"), section(TOPICS, "Subscriptions")
    assert {codes(cell)[0] for cell, _ in rows(published, "type")} == {
        name for name, codec in CODECS.items() if codec.encode
    }
    commanded = {codes(cell)[0] for cell, _ in rows(commanding, "type")}
    assert commanded == {
        JOINT_TRAJECTORY,
        *(name for name, meaning in MESSAGE_TYPES.items() if meaning.commands),
    }


def test_quality_of_service_by_type() -> None:
    table = dict(rows(page_text("quality_of_service.md"), "policy"))
    streaming, _, _ = table["reliability"].partition("; else")
    meanings = MESSAGE_TYPES.items()
    assert {f"sensor_msgs/msg/{name}" for name in codes(streaming)} == {
        n for n, each in meanings if each.best_effort
    }
    latched = {f"nav_msgs/msg/{name}" for name in codes(table["durability"])[:1]}
    assert latched == {name for name, each in meanings if each.latched}
    assert {each.latched_name for _, each in meanings if each.latched_name} <= set(codes(table["durability"]))
    assert f"1 to {qos.MAX_DEPTH:,}" in table["history"]


def test_limits() -> None:
    limits = dict(rows(section(INTERFACES, "Names"), "limit"))
    assert limits["an authored name or namespace segment"] == str(names.MAX_NAME)
    resolved = " / ".join(str(names.MAX_RESOLVED[kind]) for kind in ("topic", "service", "action"))
    assert limits["a resolved topic / service / action name"] == resolved
    assert f"{RATE.low:g} to {RATE.high:,.0f} Hz" in " ".join(section(TOPICS, "Rates and stamps").split())
    domains = " ".join(section(INTERFACES, "Domains").split())
    assert f"0 to {contexts.MAX_DOMAIN}" in domains
    assert f"at most {contexts.MAX_DOMAINS} in a process" in domains


def test_implicit_interfaces() -> None:
    table = rows(section(INTERFACES, "Implicit interfaces"), "topic")
    expected = [
        [
            f"`{interfaces.JOINT_STATES}`",
            "publisher",
            JOINT_STATE,
            f"{interfaces.IMPLICIT_RATE:g} Hz",
        ],
        [f"`{interfaces.JOINT_COMMANDS}`", "subscription", JOINT_STATE, ""],
    ]
    assert table == expected


def test_own_attributes() -> None:
    table = rows(section(INTERFACES, "Attributes of the bridge"), "prim")
    kinds = (
        CameraRecord,
        ContextRecord,
        TopicRecord,
        ActionRecord,
        JointTrajectoryRecord,
        DiffDriveRecord,
    )
    specs = {spec.name: spec for kind in kinds for _, spec in attribute_fields(kind)}
    own = {name for name in specs if name.startswith("usd_ros_bridge:")}
    assert {codes(row[1])[0] for row in table} == own
    for _, attribute, type_name, default, _ in table:
        spec = specs[codes(attribute)[0]]
        assert (type_name, default) == (spec.type_name, as_documented(spec.fallback))


def as_documented(value: object) -> str:
    if value is None or value == (0.0,) * 6:
        return "" if value is None else "six zeros"
    return f"{value:g}" if isinstance(value, float) else str(value).replace("False", "false")


# --- joints.md, solver_attributes.md -----------------------------------------------------------------------------


def test_joint_types() -> None:
    table = {name: codes(kind)[0] for name, kind, _ in rows(page_text("joints.md"), "USD type")}
    assert table == KINDS


def test_solver_attributes() -> None:
    table = {codes(row[0])[0]: row[1:4] for row in rows(page_text("solver_attributes.md"), "property")}
    actual = {
        wanted: [
            [attribute.name for attribute in by_solver.get(solver, ())]
            for solver in solver_attributes.SOLVERS
        ]
        for wanted, by_solver in solver_attributes.TABLE.items()
    }
    assert {wanted: [codes(cell) for cell in cells] for wanted, cells in table.items()} == actual


def test_dialects_of_several_attributes_are_in_the_schemas() -> None:
    folder = Path(__file__).parents[2] / "assets" / "schemas"
    known: set[str] = set()
    for path in folder.glob("*.json"):
        for properties in json.loads(path.read_text(encoding="utf-8"))["schemas"].values():
            known |= properties.keys()
    table = rows(page_text("solver_attributes.md"), "feature")
    names = {name for row in table for cell in row[1:] for name in codes(cell)}
    assert len(names) == 15
    assert names <= known, names - known


# --- backends.md --------------------------------------------------------------------------------------------------


def test_backends() -> None:
    table = {codes(row[0])[0]: row[2] for row in rows(BACKENDS, "backend")}
    assert table.keys() == BACKENDS_OF_THE_PACKAGE.keys()
    for name, commands in table.items():
        if name == "newton" and importlib.util.find_spec("newton") is None:
            continue
        assert (commands == "executed") is load_backend(name).capabilities.commands, name


def test_options() -> None:
    for name, entry in BACKENDS_OF_THE_PACKAGE.items():
        text = section(BACKENDS, name)
        if entry.options:
            table = [(codes(option)[0], default.strip("`")) for option, default, _ in rows(text, "option")]
            assert table == [(option, each.default) for option, each in entry.options.items()], name
        else:
            assert "No options." in text, name


def test_joint_states_input() -> None:
    row = next(row for row in rows(section(BACKENDS, "joint_states"), "option") if codes(row[0]) == ["topic"])
    assert codes(row[1]) == [joint_states.DEFAULT_TOPIC]
    assert f"depth {joint_states.SENSOR_DATA_DEPTH}" in section(BACKENDS, "joint_states")
    assert f"{DEFAULT_DEPTH} per subscription" in " ".join(section(EMBEDDING, "Threads").split())


def test_members() -> None:
    members = {name for name in vars(Backend) if not name.startswith("_")}
    assert {re.match(r"\w+", codes(row[0])[0])[0] for row in rows(WRITING_A_BACKEND, "member")} == members  # type: ignore[index]


def test_capabilities() -> None:
    table = {codes(name)[0]: default for name, default, _ in rows(WRITING_A_BACKEND, "capability")}
    defaults = Capabilities()
    assert table == {
        each.name: str(getattr(defaults, each.name)).lower() for each in dataclasses.fields(Capabilities)
    }


@pytest.mark.parametrize(("header", "arrays"), [("State", State), ("Commands", Commands)])
def test_arrays(header: str, arrays: Any) -> None:
    table: Mapping[str, list[str]] = {codes(row[0])[0]: row[1:] for row in rows(WRITING_A_BACKEND, header)}
    # Python 3.13 takes the indentation out of docstrings itself.
    text = inspect.cleandoc(arrays.__doc__ or "")
    attributes = re.findall(r"^    (\w+):", text, re.MULTILINE)
    assert list(table) == attributes
    assert set(table) == {
        name for name in dir(arrays) if not name.startswith("_") and not callable(getattr(arrays, name))
    }
    described = " ".join(text.split())
    for name, (shape, _, _) in table.items():
        wanted = shape.partition(")")[0] + ")" if "(" in shape else ""
        assert f"{name}: {wanted}" in described, name


# --- live.md ------------------------------------------------------------------------------------------------------


def test_parameters_that_may_be_set_while_the_node_runs() -> None:
    table = rows(section(page_text("live.md"), "Parameters"), "parameters")
    listed = {name for cell, _ in table for name in codes(cell) if "." not in name}
    assert listed == {option.name for option in OPTIONS.values() if option.live}


# --- embedding.md -------------------------------------------------------------------------------------------------


def test_array_backend_options() -> None:
    options = [codes(row[0])[0] for row in rows(section(EMBEDDING, "ArrayBackend"), "option")]
    assert options == [name for name in inspect.signature(ArrayBackend).parameters if name != "layout"]
