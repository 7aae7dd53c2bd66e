"""Let viewers elsewhere load mesh files: URIs of an HTTP server, or the service that RViz asks for every URI."""

from __future__ import annotations

import asyncio
import os
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from usd_ros_bridge.errors import BridgeError, OptionError, quoted_path
from usd_ros_bridge.export.mesh_files import default_directory, directory_uri, installed_meshes
from usd_ros_bridge.export.mesh_server import MeshServer
from usd_ros_bridge.export.mesh_store import MeshStore, with_base
from usd_ros_bridge.model.message_types import GET_RESOURCE
from usd_ros_bridge.options import BridgeOptions, parse_mesh_uris
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.endpoints.service import ServiceServer, make_built_in_server
from usd_ros_bridge.ros.interface_types import AmentCatalog, InterfaceTypeError, import_interface
from usd_ros_bridge.ros.workers import Workers

SERVICE: Final = "/rviz/get_resource"
"""The name that RViz asks, of all URIs, before it searches a file itself (rviz_default_plugins 15, Kilted)."""
_TAKEN: Final = "service.taken:"
_TIMEOUT_S: Final = 30.0
_READ_BYTES: Final = 2**20


class MeshSharing:
    """Serve the mesh files of descriptions, and give the descriptions URIs by which viewers find them."""

    def __init__(
        self,
        asset: str,
        options: BridgeOptions,
        *,
        workers: Workers | None,
        report: Report,
        offers_service: bool = True,
    ) -> None:
        """Store the arguments; `open` starts.

        Args:
            asset: The asset as the caller named it.
            options: Options of the bridge.
            workers: Run requests to the service; None: serve nothing, give URIs alone.
            report: For what cannot be served.
            offers_service: Offer the service. Its name is one for the domain: of several bridges one has it.
        """
        self._options = options
        self._asset = asset
        self._wanted = parse_mesh_uris(options.mesh_uris)
        self._workers = workers
        self._report = report
        self._offers_service = offers_service
        self._store: MeshStore | None = None
        self._paths: dict[str, Path] = {}
        self._base = ""
        self._server: MeshServer | None = None
        self._service_class: Any = None
        self._services: dict[int, ServiceServer] = {}

    @property
    def installed(self) -> Path | None:
        """Return the directory of mesh files that the asset's package has installed."""
        return None if self._options.mesh_directory is not None else installed_meshes(self._asset)

    def open(self) -> None:
        """Start to serve.

        Raises:
            OptionError: It is not possible in the way that `mesh_uris` says.
        """
        try:
            directory = Path(self._options.mesh_directory or default_directory())
        except BridgeError:
            # Without a directory there are no meshes; making descriptions reports that.
            return
        self._store = MeshStore(directory, self.installed)
        self._paths = {
            uri: each
            for each in (directory, self.installed)
            if each is not None
            for uri in (directory_uri(each), _file_uri(each))
        }
        kind = self._wanted.kind
        if kind == "http" and self._workers is not None:
            self._open_server(self._store)
        elif kind == "package":
            self._check_package(directory)
        may_serve = (
            self._offers_service and self._workers is not None and self._options.remote_control != "none"
        )
        if kind in ("auto", "service") and may_serve:
            self._service_class = self._find_class(is_needed=kind == "service")

    def serve(self, domain: Domain) -> None:
        """Offer the service in a domain, unless it is there already."""
        if self._service_class is None or self._workers is None or domain.domain_id in self._services:
            return
        server = make_built_in_server(
            SERVICE,
            GET_RESOURCE,
            self._service_class,
            domain,
            self._answer,
            workers=self._workers,
            report=self._tell,
            timeout=_TIMEOUT_S,
        )
        server.open()
        self._services[domain.domain_id] = server

    def text(self, urdf: str) -> str:
        """Return a description with the URIs that viewers get."""
        if self._base:
            return with_base(urdf, self._base)
        if self._wanted.kind == "file":
            for uri, directory in self._paths.items():
                urdf = urdf.replace(f'filename="{escape(uri)}/', f'filename="{_file_uri(directory)}/')
        return urdf

    def status(self) -> list[InterfaceStatus]:
        """Return the status of the services."""
        return [each.status() for each in self._services.values()]

    def close(self) -> None:
        """End the server and the services. Idempotent."""
        services, self._services = self._services, {}
        self._service_class = None
        for each in services.values():
            each.close()
        server, self._server = self._server, None
        if server is not None:
            server.close()

    # --- Own ---------------------------------------------------------------------------------------------------

    def _open_server(self, store: MeshStore) -> None:
        wanted = self._wanted
        if not wanted.is_loopback:
            self._report(
                "meshes.http", f"mesh files can be read by everyone who reaches {wanted.host} (mesh_uris)"
            )
        server = MeshServer(
            store,
            host=wanted.host,
            port=wanted.port,
            report=lambda text: self._report("meshes.http.ended", text),
        )
        server.open()
        self._server, self._base = server, server.uri

    def _check_package(self, directory: Path) -> None:
        if not any(uri.startswith("package://") for uri in self._paths):
            raise OptionError(
                f"mesh_uris package: {quoted_path(directory)} is not in the share of a ROS package; set mesh_directory "
                "to one that is, or install the files there (docs/reference/meshes.md)"
            )

    def _find_class(self, *, is_needed: bool) -> Any:
        try:
            return import_interface(GET_RESOURCE, AmentCatalog())
        except InterfaceTypeError as error:
            if is_needed:
                raise OptionError(
                    f"mesh_uris service: {error}; install rviz_resource_interfaces (ROS 2 Kilted or later: apt install "
                    "ros-$ROS_DISTRO-rviz-resource-interfaces)"
                ) from error
            return None

    def _tell(self, key: str, text: str) -> None:
        # Bridges of one machine share their mesh files: each gives the same answer.
        if not key.startswith(_TAKEN):
            self._report(key, text)

    async def _answer(self, request: Any, response: Any) -> Any:
        base, _, name = str(request.path).rpartition("/")
        directory = self._paths.get(base)
        if directory is None or self._store is None:
            return _failed(response, "it is no mesh file of this bridge")
        if request.etag and request.etag == name:
            response.status_code, response.etag = type(response).NOT_MODIFIED, name
            return response
        # In a thread of its own: other handlers wait for nothing.
        content = await asyncio.to_thread(_read, self._store.open, name)
        if content is None:
            return _failed(response, "there is no such file")
        response.status_code, response.etag, response.body = type(response).OK, name, content
        response.expanded_path = f"{_file_uri(directory)}/{name}"
        return response


def _failed(response: Any, reason: str) -> Any:
    response.status_code, response.error_reason = type(response).ERROR, reason
    return response


def _read(open_file: Callable[[str], int | None], name: str) -> array[int] | None:
    """Return the content of a file, None if there is none."""
    handle = open_file(name)
    if handle is None:
        return None
    content = array("B")
    with os.fdopen(handle, "rb") as file:
        while part := file.read(_READ_BYTES):
            content.frombytes(part)
    return content


def _file_uri(directory: Path) -> str:
    return Path(os.path.normpath(directory.absolute())).as_uri()
