"""Opinions: the layer and the line of what each diagnostic is about."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from pxr import Ar, Sdf, Tf, Usd

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.usd.layer_files import (
    FileRefusedError,
    FileVersion,
    LayerFiles,
    file_version,
    files_of,
    outer_file,
    read_regular_file,
)
from usd_ros_bridge.usd.layer_lines import Key, layer_lines, line_of_text
from usd_ros_bridge.usd.read.composition import ArcSite, arc_sites
from usd_ros_bridge.usd.read.properties import slots_of
from usd_ros_bridge.usd.read.stage_reader import SCHEMAS, layer_name
from usd_ros_bridge.usd.text_encoding import TEXT

MAX_TEXT_BYTES: Final = 64 * 2**20
"""Longest text of a layer that is searched for lines."""

_ROOT: Final = "/"
_APPLIED: Final = "apiSchemas"
_VALUES: Final = ("default", "timeSamples", "spline", "targetPaths", "connectionPaths")
_FIELDS: Final = {
    "2.2.payload": ("payload", "payload"),
    "1.2.3.payload": ("payload", "payload"),
    "1.2.4.default": ("variantSetNames", "variantSets"),
}
"""Code of a diagnostic about a prim's metadata -> its name in OpenUSD, and in text."""


@dataclass(frozen=True, slots=True)
class _Text:
    """Text of a layer.

    Attributes:
        file: Its file; with `inner`, the archive that it is in.
        version: Version of the file that the layer has the content of.
        inner: Path in the archive, "" for none.
    """

    file: str
    version: FileVersion
    inner: str = ""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an opinion is.

    Attributes:
        layer: As in `Diagnostic`.
        text: The layer's text, None if it has none.
        keys: Keys of the opinion in `layer_lines`, and of what it is part of: the first that is there counts.
        words: Text that is searched before them.
    """

    layer: str
    text: _Text | None
    keys: tuple[Key, ...]
    words: str = ""


def find_opinions(
    stage: Usd.Stage, diagnostics: Iterable[Diagnostic]
) -> Callable[[], tuple[Diagnostic, ...]]:
    """Find the opinions that diagnostics are about; the stage is only read.

    Returns:
        What reads the texts, and returns the diagnostics with layers and lines; any thread may call it.
    """
    finder = _Finder(stage)
    found = [(each, finder.place(each)) for each in diagnostics]

    def finish() -> tuple[Diagnostic, ...]:
        # Prims that are composed alike have the same place, and hashing one is slow.
        places = {id(place): place for _, place in found if place is not None}
        lines = _lines_of(places.values())
        numbers = {key: lines.get(place, 0) for key, place in places.items()}
        return tuple(
            each if place is None else replace(each, layer=place.layer, line=numbers[id(place)])
            for each, place in found
        )

    return finish


class _Finder:
    """Find the places of opinions on a stage."""

    def __init__(self, stage: Usd.Stage) -> None:
        self._stage = stage
        self._files = files_of(stage)
        self._session = stage.GetSessionLayer()
        self._layers: dict[str, tuple[str, _Text | None]] = {}
        self._sites: dict[Diagnostic, ArcSite] | None = None
        self._properties: dict[tuple[Any, ...], _Place | None] = {}
        self._last_path = ""
        self._last_specs: tuple[Any, ...] = ()

    def place(self, diagnostic: Diagnostic) -> _Place | None:
        """Return the place of the opinion that a diagnostic is about, None if there is none."""
        try:
            return self._place(diagnostic)
        except Tf.ErrorException:
            # Paths that no prim can have, for one.
            return None

    def _place(self, diagnostic: Diagnostic) -> _Place | None:
        if diagnostic.code.startswith("1.2.") and not diagnostic.attribute:
            if self._sites is None:
                self._sites = arc_sites(self._stage)
            site = self._sites.get(diagnostic)
            layer = Sdf.Layer.Find(site.layer) if site is not None and site.layer else None
            if site is not None and layer is not None:
                return self._arc(layer, site)
        if diagnostic.layer and not diagnostic.path:
            layer = Sdf.Layer.Find(diagnostic.layer)
            return None if layer is None else self._metadata([layer], diagnostic.attribute)
        path = diagnostic.path
        prim = self._stage.GetPrimAtPath(path) if path and Sdf.Path.IsValidPathString(path)[0] else None
        if not prim:
            layers = [each for each in (self._session, self._stage.GetRootLayer()) if each]
            return self._metadata(layers, diagnostic.attribute)
        all_specs = self._specs_of(path, prim)
        specs = [each for each in all_specs if each.layer.identifier == diagnostic.layer] or list(all_specs)
        if diagnostic.attribute:
            return self._known_property(prim, all_specs, specs, diagnostic)
        name, text_name = _FIELDS.get(diagnostic.code, ("", ""))
        found = next((each for each in specs if name and each.HasInfo(name)), None)
        if found is not None:
            return self._at(found.layer, (str(found.path), text_name, ""), (str(found.path), "", ""))
        return self._prim(specs)

    def _specs_of(self, path: str, prim: Usd.Prim) -> tuple[Any, ...]:
        """Return the specs of a prim; diagnostics about one prim mostly follow each other."""
        if path != self._last_path:
            self._last_path, self._last_specs = path, tuple(prim.GetPrimStack())
        return self._last_specs

    def _known_property(
        self, prim: Usd.Prim, all_specs: tuple[Any, ...], specs: list[Any], diagnostic: Diagnostic
    ) -> _Place | None:
        """Return the place of a property; it is searched once for all prims that are composed alike."""
        applied = f"{diagnostic.message} {diagnostic.value}" if diagnostic.attribute == _APPLIED else ""
        key = (all_specs, diagnostic.attribute, applied, diagnostic.layer)
        if key not in self._properties:
            self._properties[key] = self._property(prim, specs, diagnostic)
        return self._properties[key]

    def _arc(self, layer: Any, site: ArcSite) -> _Place:
        """Return the place of a composition arc, or of an asset path that is a value."""
        assets = list(_authored_paths(layer, site.asset_path))
        if not site.path:
            words = f"@{assets[0]}@" if assets else ""
            return replace(self._at(layer, (_ROOT, "", "")), words=words)
        fields = ("references", "payload", "inherits", "specializes")
        named = [(site.path, name, asset) for asset in assets for name in fields[:2]]
        return self._at(layer, *named, *((site.path, name, "") for name in fields), (site.path, "", ""))

    def _metadata(self, layers: list[Any], name: str) -> _Place:
        """Return the place of a layer's metadata, in the first layer that has it; else the last layer."""
        found = next((each for each in layers if name and each.pseudoRoot.HasInfo(name)), layers[-1])
        return self._at(found, (_ROOT, name, ""), (_ROOT, "", ""))

    def _property(self, prim: Usd.Prim, specs: list[Any], diagnostic: Diagnostic) -> _Place | None:
        """Return the place of a property; of one that is not authored, where its schema is applied."""
        name = diagnostic.attribute
        quotes = f"{diagnostic.message} {diagnostic.value}"
        if name == _APPLIED and (place := self._applied(specs, quotes)) is not None:
            return place
        found = _property_spec(specs, name)
        if found is not None:
            path = str(found.path)
            return self._at(found.layer, (path, "", ""), (path.rpartition(".")[0], "", ""))
        metadata = next((each for each in specs if _has_info(each, name)), None)
        if metadata is not None:
            path = str(metadata.path)
            return self._at(metadata.layer, (path, name, ""), (path, "", ""))
        for schema in _schemas_of(prim, name):
            place = self._applied(specs, quoted(schema))
            if place is not None:
                return place
        return self._prim(specs)

    def _applied(self, specs: list[Any], message: str) -> _Place | None:
        """Return where a schema is applied that a message quotes."""
        for spec in specs:
            for schema in spec.GetInfo(_APPLIED).GetAddedOrExplicitItems():
                if quoted(schema) in message:
                    path = str(spec.path)
                    return self._at(
                        spec.layer, (path, _APPLIED, schema), (path, _APPLIED, ""), (path, "", "")
                    )
        return None

    def _prim(self, specs: list[Any]) -> _Place | None:
        """Return the place of the strongest spec of a prim that the asset has: the session selects variants."""
        of_asset = (each for each in specs if each.layer != self._session)
        found = next(of_asset, specs[0] if specs else None)
        return None if found is None else self._at(found.layer, (str(found.path), "", ""))

    def _at(self, layer: Any, *keys: Key) -> _Place:
        name, text = self._layer(layer)
        return _Place(name, text, keys)

    def _layer(self, layer: Any) -> tuple[str, _Text | None]:
        known = self._layers.get(layer.identifier)
        if known is None:
            known = self._layers[layer.identifier] = _name_and_text(layer, self._files)
        return known


def _name_and_text(layer: Any, files: LayerFiles) -> tuple[str, _Text | None]:
    """Return a layer's name as in `Diagnostic`, and its text."""
    real_path = "" if layer.anonymous else layer.realPath
    if not real_path:
        return layer_name(layer), None
    opened, inner = real_path, ""
    if Ar.IsPackageRelativePath(real_path):
        opened, inner = Ar.SplitPackageRelativePathOuter(real_path)
    elif layer.GetFileFormat().IsPackage():
        inner = _first_inside(real_path)
    shown = outer_file(real_path)
    version = files.unedited_version(layer, opened)
    text = None if version is None else _Text(opened, version, inner)
    return (f"{shown}[{inner}]" if inner else shown), text


def _first_inside(archive: str) -> str:
    """Return the path of the root layer in a usdz archive, which is its first file; "" if it cannot be read."""
    try:
        with zipfile.ZipFile(archive) as opened:
            return next(iter(opened.namelist()), "")
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return ""


def _authored_paths(layer: Any, asset_path: str) -> Iterator[str]:
    """Yield the asset paths of a layer that lead to what OpenUSD calls `asset_path`."""
    for path in layer.GetCompositionAssetDependencies():
        if path and asset_path in (path, Sdf.ComputeAssetPathRelativeToLayer(layer, path)):
            yield path
    yield asset_path


def _property_spec(specs: list[Any], name: str) -> Any:
    """Return the strongest spec of a property that has a value, else the strongest one; None if there is none.

    A collection is found by its properties.
    """
    found = []
    for spec in specs:
        properties = spec.properties
        own = properties.get(name)
        if own is None and name.startswith("collection:"):
            own = next((each for each in properties if each.name.startswith(f"{name}:")), None)
        if own is not None:
            if any(own.HasInfo(each) for each in _VALUES):
                return own
            found.append(own)
    return found[0] if found else None


def _has_info(spec: Any, name: str) -> bool:
    return name.isidentifier() and name in spec.ListInfoKeys()


def _schemas_of(prim: Usd.Prim, name: str) -> Iterator[str]:
    """Yield the applied schemas of a prim that have a property."""
    # Those that OpenUSD does not know are not among GetAppliedSchemas.
    for schema in prim.GetPrimTypeInfo().GetAppliedAPISchemas():
        record_type: Any = SCHEMAS[schema][1] if schema in SCHEMAS else None
        if (record_type is not None and name in slots_of(record_type)) or name in _properties_of(schema):
            yield schema


@cache
def _properties_of(schema: str) -> frozenset[str]:
    """Return the properties of an applied schema that OpenUSD knows."""
    registry = Usd.SchemaRegistry()
    kind, instance = registry.GetTypeNameAndInstance(schema)
    definition = registry.FindAppliedAPIPrimDefinition(kind)
    names = definition.GetPropertyNames() if definition else ()
    return frozenset(each.replace("__INSTANCE_NAME__", instance) for each in names)


def _lines_of(places: Iterable[_Place]) -> dict[_Place, int]:
    """Return the lines of places that have one. Each text is read and scanned once."""
    of_texts: dict[_Text, list[_Place]] = {}
    for place in places:
        if place.text is not None:
            of_texts.setdefault(place.text, []).append(place)
    found: dict[_Place, int] = {}
    for text, inside in of_texts.items():
        content = _read(text)
        for place in inside:
            if place.words and (line := line_of_text(content, place.words)):
                found[place] = line
        left = [place for place in inside if place not in found]
        if content and left:
            keys = {key for place in left for key in place.keys}
            lines = layer_lines(content, keys, {place.keys[0] for place in left})
            found |= {
                place: next(lines[key] for key in place.keys if key in lines)
                for place in left
                if not lines.keys().isdisjoint(place.keys)
            }
    return found


def _read(text: _Text) -> bytes:
    """Return the content of a text; nothing if it is none, too long, or another one by now."""
    try:
        if file_version(text.file) != text.version:
            return b""
        if not text.inner:
            content = read_regular_file(text.file, MAX_TEXT_BYTES)
        else:
            with zipfile.ZipFile(text.file) as archive:
                entry = archive.getinfo(text.inner)
                if entry.file_size > MAX_TEXT_BYTES or entry.compress_type != zipfile.ZIP_STORED:
                    return b""
                content = archive.read(entry)
    except (OSError, KeyError, ValueError, NotImplementedError, zipfile.BadZipFile, FileRefusedError):
        return b""
    return content if content.startswith(TEXT) else b""
