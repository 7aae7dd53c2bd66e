"""docs/reference/physics.md against the tables of solver attributes, approximations and shapes."""

from __future__ import annotations

import pytest

from markdown_docs import codes, page_text, rows, section
from usd_ros_bridge.options import SOLVERS
from usd_ros_bridge.planning.kinematics import solver_attributes
from usd_ros_bridge.planning.physics.shapes import APPROXIMATIONS, shape_types

pytestmark = pytest.mark.docs

PAGE = page_text("physics.md")
TABLES = {
    "scene": solver_attributes.SCENE,
    "articulation": solver_attributes.ARTICULATION,
    "body": solver_attributes.BODY,
    "collider": solver_attributes.COLLIDER,
    "material": solver_attributes.MATERIAL,
    "joint": solver_attributes.JOINT,
}


def test_solver_attributes() -> None:
    found: dict[str, dict[str, dict[str, list[str]]]] = {name: {} for name in TABLES}
    for wanted, places, *by_solver in rows(section(PAGE, "Solver attributes"), "property"):
        names = {solver: codes(cell) for solver, cell in zip(SOLVERS, by_solver, strict=True) if codes(cell)}
        for place in places.split(", "):
            found[place][codes(wanted)[0]] = names
    assert found == {
        place: {
            wanted: {
                solver: [name for name in (attribute.name, attribute.minus, attribute.also) if name]
                for solver, attribute in by_solver.items()
            }
            for wanted, by_solver in table.items()
        }
        for place, table in TABLES.items()
    }


def test_lengths_are_in_metres() -> None:
    told = {
        codes(wanted)[0]
        for wanted, *_ in rows(section(PAGE, "Solver attributes"), "property")
        if "(m)" in wanted
    }
    assert told == {
        wanted
        for table in TABLES.values()
        for wanted, by_solver in table.items()
        if any(attribute.length for attribute in by_solver.values())
    }


def test_shapes() -> None:
    told = {name for cell, *_ in rows(section(PAGE, "Colliders"), "type") for name in cell.split(", ")}
    assert told == set(shape_types())


def test_approximations() -> None:
    table = rows(section(page_text("diagnostics.md"), "Physics (1.3)"), "code")
    (remedy,) = [cells[-1] for cells in table if codes(cells[0]) == ["1.3.mesh.approximation"]]
    assert tuple(codes(remedy)) == APPROXIMATIONS
