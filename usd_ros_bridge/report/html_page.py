"""The page: one HTML file without external resources. Its Content-Security-Policy runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Final

from usd_ros_bridge.model.change import PlanDifference
from usd_ros_bridge.model.diagnostics import SEVERITIES
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import VariantSet
from usd_ros_bridge.report.html_parts import Html, joined, text
from usd_ros_bridge.report.physics_sections import physics_section, sensors_section
from usd_ros_bridge.report.plan_sections import (
    composition_section,
    controllers_section,
    difference_section,
    findings_section,
    frames_section,
    interfaces_section,
    joints_section,
)
from usd_ros_bridge.report.scene_model import SceneModel, build_scene

MAX_MESH_BYTES: Final = 8_000_000
"""Bytes of meshes and textures in a page, by default."""
_FEW_FRAMES: Final = 60
"""Frames whose axes are shown at first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetReport:
    """All that the page shows.

    Attributes:
        plan: The asset, with physics.
        label: The asset with its selected variants, for people.
        version: Version of this package.
        layers: Files of the stage's layers.
        variant_sets: Variant sets of the stage's prims.
        old_label: What it is compared with, "" for nothing.
        difference: The differences; None if it is not compared.
    """

    plan: BridgePlan
    label: str
    version: str
    layers: tuple[str, ...] = ()
    variant_sets: tuple[VariantSet, ...] = ()
    old_label: str = ""
    difference: PlanDifference | None = None


def write_page(report: AssetReport, *, max_mesh_bytes: int = MAX_MESH_BYTES) -> str:
    """Return the page as HTML.

    Args:
        report: What to show.
        max_mesh_bytes: Bytes of meshes and textures for the 3D view; 0 for a page without one.
    """
    scene = build_scene(report.plan, max_bytes=max_mesh_bytes) if max_mesh_bytes else None
    sections = list(_sections(report, scene))
    script = _resource("viewer.js")
    style = _resource("report_style.css")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    links = joined([Html(f'<a href="#{name}">{text(title)}</a>') for name, title, _ in sections])
    body = "\n".join(
        f'<section id="{name}"><h2>{text(title)}</h2>\n{content}</section>'
        for name, title, content in sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{text(report.label)}</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{style}</style>\n</head>\n<body>\n<h1>{text(report.label)}</h1>\n"
        f'<p class="quiet">Report of usd_ros_bridge {text(report.version)}. The page needs no network.</p>\n'
        f"{_counts(report.plan)}\n"
        f'<nav class="bar">{links}<input id="filter" type="search" placeholder="filter all tables" '
        'aria-label="filter all tables"></nav>\n'
        f"{body}\n{_data(scene)}<script>{script}</script>\n</body>\n</html>\n"
    )


def _sections(report: AssetReport, scene: SceneModel | None) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the title and the HTML of each section."""
    plan = report.plan

    def section(name: str, title: str, lines: Iterable[str]) -> tuple[str, str, str]:
        return name, title, "\n".join(lines)

    yield section("findings", f"Findings ({len(plan.diagnostics)})", findings_section(plan.diagnostics))
    if report.difference is not None:
        lines = difference_section(report.difference, old=report.old_label, new=report.label)
        yield section("differences", f"Differences ({len(report.difference)})", lines)
    if scene is not None:
        yield section("view", "3D view", _view(scene, sum(len(robot.frames) for robot in plan.robots)))
    yield section("frames", "Frames", frames_section(plan))
    yield section("joints", "Joints", joints_section(plan))
    yield section("interfaces", "Interfaces", interfaces_section(plan))
    yield section("controllers", "Controllers", controllers_section(plan))
    yield section("sensors", "Sensors", sensors_section(plan))
    yield section("physics", "Physics", physics_section(plan))
    yield section(
        "composition", "Layers and variants", composition_section(report.layers, report.variant_sets)
    )


def _counts(plan: BridgePlan) -> Html:
    severities = Counter(each.severity for each in plan.diagnostics)
    counts = [
        (len(plan.robots), "robot"),
        (sum(len(robot.frames) for robot in plan.robots), "frame"),
        (sum(len(robot.joints) for robot in plan.robots), "joint"),
        (len(plan.topics), "topic"),
        (len(plan.services), "service"),
        (len(plan.actions), "action"),
        (len(plan.controllers), "controller"),
        *((severities[each], each) for each in SEVERITIES),
    ]
    items = []
    for count, what in counts:
        plural = "" if count == 1 or what == "info" else "s"
        style = f' class="{what}"' if what in SEVERITIES and count else ""
        items.append(f"<li{style}><b>{count}</b> {what}{plural}</li>")
    return Html(f'<ul class="counts">{"".join(items)}</ul>')


# --- 3D view ------------------------------------------------------------------------------------------------------


def _view(scene: SceneModel, frames: int) -> Iterator[str]:
    boxes = (
        ("meshes", "meshes", True),
        ("collisions", "collision shapes", False),
        ("axes", "frame axes", frames <= _FEW_FRAMES),
        ("names", "frame names", False),
    )
    yield '<div class="tools">'
    for name, label, checked in boxes:
        mark = " checked" if checked else ""
        # A browser that goes back to the page must not restore other choices than the view's.
        yield f'<label><input type="checkbox" autocomplete="off" data-shows="{name}"{mark}> {label}</label>'
    yield '<button id="scene-fit" type="button">reset view</button>'
    yield '<button id="scene-save" type="button">save as glTF</button>'
    yield '<span class="quiet">drag: turn, right button or shift: move, wheel: zoom, click: prim</span></div>'
    yield (
        '<div class="scene"><canvas id="scene" tabindex="0" aria-label="3D view of the asset at rest"></canvas>'
        '<div class="labels" id="scene-labels"></div></div>'
    )
    yield '<p><code id="scene-picked" aria-live="polite"></code><span id="scene-fault"></span></p>'
    for note in scene.notes:
        yield f'<p class="quiet">{text(note[:1].upper() + note[1:])}.</p>'


def _data(scene: SceneModel | None) -> str:
    """Return the data of the 3D view, in elements that browsers do not run."""
    if scene is None:
        return ""
    settings = json.dumps(scene.settings, separators=(",", ":"), allow_nan=False)
    # What ends a script element, or begins a comment in it, has a `<`.
    settings = settings.replace("<", "\\u003c")
    data = f'<script type="application/json" id="scene-settings">{settings}</script>\n'
    if scene.glb:
        coded = base64.b64encode(scene.glb).decode("ascii")
        data += f'<script type="model/gltf-binary" id="scene-glb">{coded}</script>\n'
    return data


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode("ascii")
