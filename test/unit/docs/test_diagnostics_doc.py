"""diagnostics.md and runtime_reports.md list exactly the diagnostics and the reports that the code makes.

They are found in the source: every call of a function that has a parameter `code` (`Diagnostic`, `Findings.error`, and
whatever passes one on), and every call of a `report(kind, message)`. A code that is worked out at run time has to be
explained to `COMPUTED` below, or the test fails.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from markdown_docs import ROOT, codes, page_text, rows, section

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from usd_ros_bridge.model import actuation, diagnostics, physics_records, records
from usd_ros_bridge.model.diagnostics import SEVERITIES
from usd_ros_bridge.planning.physics import degradation, unseen
from usd_ros_bridge.usd.read import composition, geometry, physics_reader, stage_reader
from usd_ros_bridge.usd.read.properties import slots_of
from usd_ros_bridge.usd.read.stage_reader import SCHEMAS

pytestmark = pytest.mark.docs

PACKAGE = ROOT / "usd_ros_bridge"
PAGE = page_text("diagnostics.md")
REPORTS = page_text("runtime_reports.md")
WRONG_TYPES = "Values of the wrong type"
PLACES = "Where it is"
"""The section that lists no diagnostics."""


def wrong_type_codes() -> dict[str, set[str]]:
    """Codes of values of the wrong type, by what the document calls the schema."""
    of_schema: dict[str, tuple[type[records.Record], str]] = {
        name: (record_type, "") for name, (_, record_type) in SCHEMAS.items()
    }
    of_schema |= {
        "joints": (records.JointRecord, ""),
        "PhysxPhysicsGearJoint": (records.GearRecord, ""),
        "PhysxPhysicsRackAndPinionJoint": (records.RackRecord, ""),
        "PhysicsLimitAPI": (records.AxisLimitRecord, "rotX"),
        "PhysicsDriveAPI": (records.DriveRecord, "rotX"),
        "Camera": (records.CameraRecord, ""),
        "PhysicsScene": (physics_records.PhysicsSceneRecord, ""),
        "PhysicsMassAPI": (physics_records.MassRecord, ""),
        "PhysicsMaterialAPI": (physics_records.MaterialRecord, ""),
        "PhysicsCollisionAPI": (physics_reader.CollisionRecord, ""),
        "PhysicsMeshCollisionAPI": (physics_reader.MeshCollisionRecord, ""),
        "PhysicsCollisionGroup": (physics_records.CollisionGroupRecord, ""),
        "PhysicsFilteredPairsAPI": (physics_records.FilteredPairsRecord, ""),
        "MjcActuator": (physics_records.MjcActuatorRecord, ""),
        "MjcTendon": (physics_records.MjcTendonRecord, ""),
        "NewtonActuator": (physics_records.NewtonActuatorRecord, ""),
        "joints that break": (physics_reader.JointBreakRecord, ""),
    }
    of_schema |= {name: (record_type, "") for name, (_, record_type) in geometry.GEOMETRIES.items()}
    found = {
        name: {slot.code for slot in slots_of(record_type, axis).values()}
        for name, (record_type, axis) in of_schema.items()
    }
    return {name: codes for name, codes in found.items() if codes}


def constant(module: str, name: str) -> Any:
    """The value of a constant of a module of planning, from its source."""
    (value,) = (
        node.value
        for node in ast.parse((PACKAGE / "planning" / module).read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
    )
    return ast.literal_eval(value)


COMPUTED: dict[tuple[str, str], Callable[[], set[str]]] = {
    ("composition.py", "code"): lambda: {
        code for code, _ in (*composition.CODES.values(), composition.OTHER)
    },
    ("stage_reader.py", "metric.code"): lambda: {metric.code for metric in stage_reader.METRICS},
    ("properties.py", "slot.code"): lambda: set().union(*wrong_type_codes().values()),
    ("unseen.py", "CODE"): lambda: {unseen.CODE},
    ("qos.py", "f'2.4.qos.{field}'"): lambda: {f"2.4.qos.{field}" for field in constant("qos.py", "_VALUES")},
    ("actuation.py", "fault.code"): lambda: set(actuation.REPORTED_AT_RUN_TIME),
    ("interfaces.py", "code"): lambda: {"2.4.override_frame_id", "2.4.child_frame_id"},
    ("interfaces.py", "f'{_SECTION[kind]}.role'"): lambda: {
        f"{section}.role" for section in constant("interfaces.py", "_SECTION").values()
    },
}
"""Expressions for codes that are no literals, by module."""

VARIES = "varies"
VARIED: dict[tuple[str, str], dict[str, set[str]]] = {
    # What `degraded` adds is found at its calls.
    ("diagnostics.py", "code"): {diagnostics.DEGRADED: {"warning"}},
    ("degradation.py", "each.code"): {
        diagnostics.DEGRADED: {"warning"},
        degradation.WRONG_TYPE: {"error"},
        diagnostics.MISSPELT: {"warning"},
        "1.3.solver": {"warning", "info"},
    },
}
"""Severities by code, where a diagnostic has neither as a literal."""


# --- Diagnostics in the source ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reporter:
    """A function that takes a code: where among its arguments, and which severity it gives."""

    position: int
    severity: str


@cache
def modules() -> dict[Path, ast.Module]:
    """The parsed modules, without the collector, which passes on what others find."""
    parsed = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
    for module in parsed.values():
        module.body = [each for each in module.body if getattr(each, "name", "") != "DiagnosticCollector"]
    return parsed


def name_of(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def reporters(module: ast.Module) -> dict[str, Reporter]:
    """The functions of a module that pass on a code, beside those of Findings."""
    found = {severity: Reporter(0, severity) for severity in SEVERITIES}
    for function in ast.walk(module):
        if isinstance(function, ast.FunctionDef) and function.name not in SEVERITIES:
            names = [argument.arg for argument in function.args.args if argument.arg != "self"]
            # Codes of results of actions are numbers.
            texts = {a.arg for a in function.args.args if a.annotation and ast.unparse(a.annotation) == "str"}
            if "code" in names and "code" in texts:
                inner = {
                    name_of(call)
                    for call in ast.walk(function)
                    if isinstance(call, ast.Call) and any(ast.unparse(a) == "code" for a in call.args)
                }
                # What only looks a code up reports nothing.
                if reporting := inner & found.keys():
                    (name,) = reporting
                    found[function.name] = Reporter(names.index("code"), name)
    return found


def forwards(module: ast.Module) -> set[ast.Call]:
    """Calls inside of reporters, whose code is that of the caller."""
    return {
        call
        for function in ast.walk(module)
        if isinstance(function, ast.FunctionDef) and "code" in [a.arg for a in function.args.args]
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
    }


def uses(path: Path, module: ast.Module) -> Iterator[tuple[ast.expr, str]]:
    """Expressions for codes, and severities, of every diagnostic that a module makes."""
    known, passed_on = reporters(module), forwards(module)
    for call in ast.walk(module):
        if not isinstance(call, ast.Call) or call in passed_on:
            continue
        name = name_of(call)
        if name == "Diagnostic":
            words = {word.arg: word.value for word in call.keywords}
            # A diagnostic that was stored and is read back has been made elsewhere.
            if None not in words:
                severity = words["severity"]
                yield words["code"], severity.value if isinstance(severity, ast.Constant) else VARIES
        elif name == "degraded":
            words = {word.arg: word.value for word in call.keywords}
            severity = words.get("severity", ast.Constant("warning"))
            if "code" in words and isinstance(severity, ast.Constant):
                yield words["code"], str(severity.value)
        elif name in known and _is_report(call, name):
            yield call.args[known[name].position], known[name].severity


def _is_report(call: ast.Call, name: str) -> bool:
    """Whether a method called `error` or the like is one of Findings, and not a logger's."""
    if name not in SEVERITIES:
        return True
    return isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value).endswith("findings")


def severities_in_the_code() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for path, module in modules().items():
        for expression, severity in uses(path, module):
            if severity == VARIES:
                for code, of_code in VARIED[path.name, ast.unparse(expression)].items():
                    found[code] |= of_code
                continue
            assert severity in SEVERITIES, (path, severity)
            if isinstance(expression, ast.Constant):
                resolved = {expression.value}
            else:
                key = path.name, ast.unparse(expression)
                assert key in COMPUTED, f"explain {key} to COMPUTED"
                resolved = COMPUTED[key]()
            for code in resolved:
                found[code].add(severity)
    return found


def documented() -> dict[str, set[str]]:
    titles = [line[3:] for line in PAGE.splitlines() if line.startswith("## ")]
    found = {}
    for title in titles:
        if title in (WRONG_TYPES, PLACES):
            continue
        for cell, severities, meaning, remedy in rows(section(PAGE, title), "code"):
            (code,) = codes(cell)
            assert code not in found, f"{code} stands twice"
            assert meaning, code
            assert remedy, code
            found[code] = set(severities.split(", "))
    return found


def test_the_tables_list_every_code_and_no_other() -> None:
    actual = severities_in_the_code()
    table = documented()
    wrong_types = set().union(*wrong_type_codes().values())
    assert table.keys() | wrong_types == actual.keys()
    assert len(table) > 50


def test_the_tables_give_the_severities() -> None:
    actual = severities_in_the_code()
    # Codes of attributes are made by reading, too, for values of the wrong type.
    by_wrong_type = set().union(*wrong_type_codes().values())
    for code, severities in documented().items():
        extra = {"error", "warning"} if code in by_wrong_type else set()
        assert severities <= actual[code] <= severities | extra, code


def test_wrong_types_are_listed_by_schema() -> None:
    table = {schema: set(codes(cell)) for schema, cell in rows(section(PAGE, WRONG_TYPES), "schema")}
    assert table == wrong_type_codes()


def test_severities_are_explained() -> None:
    assert tuple(severity for severity, _ in rows(PAGE, "severity of a diagnostic")) == SEVERITIES


# --- Reports in the source ----------------------------------------------------------------------------------------


def kinds_in_the_code() -> set[str]:
    """Patterns of the kinds that are reported at run time; what is filled in stands for anything but a colon."""
    found = set()
    for module in modules().values():
        for call in ast.walk(module):
            if not isinstance(call, ast.Call) or name_of(call) not in ("report", "_report", "_inform"):
                continue
            if len(call.args) == 2 and isinstance(call.args[0], (ast.Constant, ast.JoinedStr)):
                found.add(pattern(call.args[0]))
    return found


def pattern(node: ast.expr) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(re.escape(str(p.value)) if isinstance(p, ast.Constant) else "[^:]+" for p in parts)


def test_the_table_lists_every_report_and_no_other() -> None:
    parts = [part for part in REPORTS.split("\n## ") if "| kind | meaning |" in part]
    table = [codes(kind)[0] for part in parts for kind, _ in rows(part, "kind")]
    patterns = kinds_in_the_code()
    assert len(patterns) > 20
    assert [kind for kind in table if not any(re.fullmatch(p, kind) for p in patterns)] == []
    assert [p for p in patterns if not any(re.fullmatch(p, kind) for kind in table)] == []
