"""`usd_ros_bridge report`: a page about an asset for a review, or its findings for code scanning and annotations."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge import __version__
from usd_ros_bridge.cli.common import asset_options, installed_types, load_asset, split_options
from usd_ros_bridge.cli.finite_range import FiniteRange
from usd_ros_bridge.cli.output_files import write_output
from usd_ros_bridge.model.diagnostics import refuse
from usd_ros_bridge.process_settings import gc_paused

if TYPE_CHECKING:
    from usd_ros_bridge.model.plan import BridgePlan
    from usd_ros_bridge.report.html_page import AssetReport

_MEGABYTE = 1_000_000
_MAX_VARIANT_SETS = 500


@click.command()
@asset_options
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write to FILE."
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(("html", "sarif", "github")),
    default="html",
    help="A page, or the findings as SARIF or as annotations of GitHub Actions [default: html].",
)
@click.option("--against", metavar="ASSET", help="Also show what differs from another asset.")
@click.option(
    "--against-variant",
    "against_variants",
    multiple=True,
    metavar="/PRIM:SET=CHOICE",
    help="Select a variant of the asset to compare with; without --against, of ASSET.",
)
@click.option(
    "--max-mesh-mb",
    type=FiniteRange(min=0.0),
    default=8.0,
    metavar="NUMBER",
    help="Limit for the meshes in the page, MB; larger ones become boxes, 0 leaves the 3D view out [default: 8].",
)
def report(
    output: Path | None,
    format_name: str,
    against: str | None,
    against_variants: tuple[str, ...],
    max_mesh_mb: float,
    strict: bool,
    degraded: str | None,
    **options: Any,
) -> None:
    """Write a page about ASSET for a review: findings, differences, frames, joints, interfaces, physics, 3D view.

    The page is one HTML file that needs no network. The other formats have the findings alone.
    """
    if format_name == "html" and output is None:
        raise click.UsageError("name the page's file: -o report.html")
    if format_name != "html" and (against is not None or against_variants):
        raise click.UsageError(f"--against goes with --format html: {format_name} has the findings alone")
    asset = options["asset"]
    with gc_paused():
        plan, old = _load(options), None
        if against is not None or against_variants:
            old = _load({**options, "asset": against or asset, "variants": against_variants})
        if format_name == "html":
            old_label = _label(against or asset, against_variants)
            text = _page(plan, options, old, old_label, round(max_mesh_mb * _MEGABYTE))
        else:
            text = _findings(plan, format_name)
    if output is None:
        # Findings are UTF-8, whatever the terminal's encoding is.
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    else:
        plans = (plan,) if old is None else (plan, old)
        write_output(output, text.encode("utf-8", "replace"), plans=plans)
    refuse(asset, plan.diagnostics, strict=strict, degraded=degraded)


def _load(options: dict[str, Any]) -> BridgePlan:
    read, plan_options = split_options(options)
    return load_asset(
        options["asset"],
        read_options=read,
        plan_options=plan_options,
        catalog=installed_types(),
        physics=True,
    )


def _findings(plan: BridgePlan, format_name: str) -> str:
    from usd_ros_bridge.report.finding_formats import to_annotations, to_sarif

    if format_name == "sarif":
        log = to_sarif(plan.diagnostics, asset=plan.asset, version=__version__)
        return json.dumps(log, indent=2) + "\n"
    return "".join(f"{line}\n" for line in to_annotations(plan.diagnostics, asset=plan.asset))


def _page(
    plan: BridgePlan, options: dict[str, Any], old: BridgePlan | None, old_label: str, max_mesh_bytes: int
) -> str:
    from usd_ros_bridge.report.html_page import write_page

    return write_page(_report_of(plan, options, old, old_label), max_mesh_bytes=max_mesh_bytes)


def _report_of(
    plan: BridgePlan, options: dict[str, Any], old: BridgePlan | None, old_label: str
) -> AssetReport:
    from usd_ros_bridge.model.diagnostics import path_from_here
    from usd_ros_bridge.planning.diff import difference
    from usd_ros_bridge.report.html_page import AssetReport
    from usd_ros_bridge.usd.session import StageSession

    session = StageSession(plan.stage)
    layers = sorted(path_from_here(file) for file in session.files())
    return AssetReport(
        plan=plan,
        label=_label(options["asset"], options["variants"]),
        version=__version__,
        layers=tuple(layers),
        variant_sets=session.variant_sets(most=_MAX_VARIANT_SETS),
        old_label="" if old is None else old_label,
        difference=None if old is None else difference(old, plan),
    )


def _label(asset: str, variants: tuple[str, ...] | None) -> str:
    selected = ", ".join(variants or ())
    return f"{asset} ({selected})" if selected else asset
