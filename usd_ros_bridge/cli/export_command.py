"""`usd_ros_bridge export`: write an asset in another format. Each format has options of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge.cli.common import asset_options, installed_types, load_asset, split_options
from usd_ros_bridge.cli.output_files import write_output
from usd_ros_bridge.errors import BridgeError, OptionError, alternatives, escaped, quoted
from usd_ros_bridge.model.diagnostics import Diagnostic, grouped, refuse
from usd_ros_bridge.reporting import describe
from usd_ros_bridge.requirements import find_requirement

if TYPE_CHECKING:
    from usd_ros_bridge.model.exporters import Exporter, ExportOption

_FORMAT = f"{__name__}.format"
_TYPES: dict[str, Any] = {"text": str, "int": int, "double": float}


class ExportCommand(click.Command):
    """A command that also has the options of the format that its arguments name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find the format, then parse arguments as click does."""
        ctx.meta[_FORMAT] = _named_format(args)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of all formats, then those of the named one."""
        found = super().get_params(ctx)
        name = ctx.meta.get(_FORMAT)
        if not name:
            return found
        taken = {option for each in found for option in each.opts}
        own = [_click_option(each) for each in load_exporter(name).options]
        for each in own:
            if clash := taken.intersection(each.opts):
                raise BridgeError(
                    f"exporter {quoted(name)}: {clash.pop()} is an option of `export` itself: give it another name"
                )
        return [*found[:-1], *own, *found[-1:]]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write which formats there are. None of them is imported."""
        del ctx
        from usd_ros_bridge.model.exporters import EXPORTERS

        with formatter.section("Formats"):
            formatter.write_dl(
                [
                    (each.name, "built in" if each.builtin else escaped(f"of {each.origin} {each.version}"))
                    for each in EXPORTERS.entries()
                    if not each.conflict
                ]
            )
            formatter.write_text("`export --format NAME --help` shows the options of one.")


@click.command(cls=ExportCommand)
@asset_options
@click.option("--format", "format_name", metavar="NAME", help="Format [default: by the suffix of FILE].")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write to FILE."
)
@click.option(
    "--frames-from-xforms/--no-frames-from-xforms",
    default=None,
    help="Make links of all plain Xforms directly below bodies, or of none [default: of links without mass].",
)
@click.pass_context
def export(
    context: click.Context,
    /,
    format_name: str | None,
    output: Path | None,
    frames_from_xforms: bool | None,
    strict: bool,
    degraded: str | None,
    **options: Any,
) -> None:
    """Write ASSET in another format: URDF, JSON, MJCF, or one of a plug-in.

    Standard output gets only the document, diagnostics go to standard error. With -o, files that belong to it, such as
    meshes, are written beside FILE.
    """
    from usd_ros_bridge.model.exporters import ExportContext

    del format_name
    name = context.meta[_FORMAT]
    if not name:
        raise click.UsageError("name a format by --format, or a FILE whose suffix is that of one")
    exporter = load_exporter(name)
    read, plan_options = split_options(options)
    if frames_from_xforms is not None:
        plan_options = replace(plan_options, frames_from_xforms=frames_from_xforms)
    plan = load_asset(
        options["asset"],
        read_options=read,
        plan_options=plan_options,
        catalog=installed_types(),
        physics=True,
    )
    diagnostics = [each for each in plan.diagnostics if each.severity != "info"]
    print_diagnostics(diagnostics)
    given = {each.name: options.get(each.name) for each in exporter.options}
    files: dict[Path, bytes] = {}
    export_context = ExportContext(
        plan=plan, options=given, path=output, report=_print_report, add_file=files.__setitem__
    )
    document, found = _exported(name, exporter, export_context)
    if output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(document)
        sys.stdout.buffer.flush()
    else:
        write_output(output, document, plans=(plan,), extra=files)
    print_diagnostics(found)
    refuse(options["asset"], [*diagnostics, *found], strict=strict, degraded=degraded)


def load_exporter(name: str) -> Exporter:
    """Return the format of a name.

    Raises:
        BridgeError: There is none, or it cannot be used; the message says why.
    """
    from usd_ros_bridge.model.exporters import EXPORTERS

    if EXPORTERS.entry(name) is None:
        raise OptionError(f"there is no format {quoted(name)}; {alternatives(name, EXPORTERS.names())}")
    exporter = EXPORTERS.get(name)
    if exporter is None:
        raise BridgeError(EXPORTERS.fault(name))
    found: Exporter = exporter
    return found


def print_diagnostics(diagnostics: Sequence[Diagnostic]) -> None:
    """Print diagnostics on standard error: one line for those that say the same about several prims."""
    for group in grouped(diagnostics):
        print(escaped(str(group)), file=sys.stderr)


def _print_report(_: str, message: str) -> None:
    print(escaped(f"usd_ros_bridge: {message}"), file=sys.stderr)


def _exported(name: str, exporter: Exporter, context: Any) -> tuple[bytes, Sequence[Diagnostic]]:
    """Return the document that a format writes, and its diagnostics."""
    document = BytesIO()
    try:
        found = list(exporter.write(context, document) or ())
    except BridgeError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, ImportError) and find_requirement(error) is not None:
            raise
        if isinstance(error, OSError) and error.strerror and (error.filename or context.path):
            file = error.filename or context.path
            raise OptionError(f"{file} cannot be written: {error.strerror}") from error
        raise BridgeError(f"exporter {quoted(name)} failed: {describe(error)}") from error
    return document.getvalue(), found


def _named_format(arguments: Sequence[str]) -> str:
    """Return the format that arguments name, by `--format` or by the suffix of the file, "" for none."""
    from usd_ros_bridge.model.exporters import EXPORTERS, SUFFIXES

    named, file = "", ""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        flag, equals, value = argument.partition("=")
        if flag == "--format":
            named = value if equals else following
        elif flag in ("-o", "--output"):
            file = value if equals else following
        elif argument.startswith("-o") and not argument.startswith("--"):
            file = argument[2:]
    suffix = Path(file).suffix
    if named or not suffix:
        return named
    return SUFFIXES.get(suffix) or (suffix[1:] if suffix[1:] in EXPORTERS.names() else "")


def _click_option(option: ExportOption) -> click.Option:
    more: dict[str, Any] = {}
    if option.kind == "flag":
        more = {"is_flag": True, "default": False}
    elif option.kind == "path":
        more = {"type": click.Path(path_type=Path)}
    elif option.choices:
        more = {"type": click.Choice(option.choices)}
    else:
        more = {"type": _TYPES[option.kind]}
    text = option.help
    if option.default is not None and "[default" not in text:
        text = f"{text.rstrip('.')} [default: {option.default}]."
    return click.Option([option.flag, option.name], **{"default": option.default, **more}, help=text)
