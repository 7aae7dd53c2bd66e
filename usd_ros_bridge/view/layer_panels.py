"""Layers in the page's panel: pictures, and values of what cannot be drawn."""

from __future__ import annotations

from typing import Any

from usd_ros_bridge.model.message_types import IMAGE
from usd_ros_bridge.view.display_layers import DisplayLayer
from usd_ros_bridge.view.layer_drawings import DrawingContext, picture_key
from usd_ros_bridge.view.message_lines import message_rows
from usd_ros_bridge.view.page_text import facts
from usd_ros_bridge.view.pictures import compressed_picture, image_picture

JPEG_QUALITY = 85


class PicturePanel:
    """Image and CompressedImage: a picture in the panel, and in the camera's frustum where that is shown."""

    def __init__(self, layer: DisplayLayer, context: DrawingContext, folder: Any) -> None:
        """Store the arguments.

        Args:
            layer: The layer.
            context: What drawings share.
            folder: Where the picture is added.
        """
        self._layer = layer
        self._context = context
        self._folder = folder
        self._handle: Any = None
        self._key = ""

    def draw(self, message: Any) -> str:
        """Show a picture. Return its size, and what its colours mean."""
        is_raw = self._layer.type == IMAGE
        picture = image_picture(message) if is_raw else compressed_picture(message)
        self._key = picture_key(self._layer.robot, message.header.frame_id)
        self._context.pictures[self._key] = picture
        if self._handle is None:
            with self._folder:
                self._handle = self._context.server.gui.add_image(
                    picture.pixels, label=self._layer.topic, format="jpeg", jpeg_quality=JPEG_QUALITY
                )
        else:
            self._handle.image = picture.pixels
        return f"{picture.width}x{picture.height}" + (f", {picture.note}" if picture.note else "")

    def follow(self) -> None:
        """Do nothing: a panel has no pose."""

    def close(self) -> None:
        """Remove the picture."""
        self._context.pictures.pop(self._key, None)
        if self._handle is not None:
            self._handle.remove()
            self._handle = None


class ValuesPanel:
    """Messages of other types: their fields as text."""

    def __init__(self, layer: DisplayLayer, context: DrawingContext, folder: Any) -> None:
        """Store the arguments, those of `PicturePanel`."""
        self._layer = layer
        self._context = context
        self._folder = folder
        self._handle: Any = None

    def draw(self, message: Any) -> str:
        """Show the fields of a message."""
        content = facts([("", self._layer.topic), *message_rows(message)])
        if self._handle is None:
            with self._folder:
                self._handle = self._context.server.gui.add_html(content)
        else:
            self._handle.content = content
        return ""

    def follow(self) -> None:
        """Do nothing: text has no pose."""

    def close(self) -> None:
        """Remove the text."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
