"""Finds an OpenGL that renders without a window (EGL, else OSMesa), and makes contexts of it."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.errors import BackendError, choices

GlKind = Literal["egl", "osmesa"]

KINDS: tuple[GlKind, ...] = ("egl", "osmesa")
PACKAGES: Mapping[GlKind, str] = {"egl": "libegl1 and libgl1-mesa-dri", "osmesa": "libosmesa6"}
"""Debian and Ubuntu packages."""

VARIABLE = "MUJOCO_GL"
_OFF = ("disable", "disabled", "off", "false", "0")
# What mujoco takes for "a window": nothing is said about rendering without one.
_ANY = ("", "enable", "enabled", "on", "true", "1", "glfw", "glx")
_PLATFORM = "PYOPENGL_PLATFORM"

_PROBE_SECONDS = 30.0
_PROBE = """
import os, sys
import mujoco
from mujoco.{kind} import GLContext
context = GLContext(16, 16)
context.make_current()
drawn = mujoco.MjrContext(mujoco.MjModel.from_xml_string("<mujoco/>"), 50)
print(drawn.offWidth, flush=True)
# Not through the libraries' own ends: some drivers crash there, after all has gone well.
os._exit(0 if drawn.offWidth else 1)
"""


_kept: list[Any] = []
_kept_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class GlChoice:
    """Which OpenGL renders.

    Attributes:
        kind: None where there is none.
        reason: Why there is none.
    """

    kind: GlKind | None
    reason: str = ""


def gl_option(text: str) -> str:
    """Returns the backend's option `gl`; raises ValueError with what is possible."""
    value = text.strip().lower()
    if value not in ("auto", "none", *KINDS):
        raise ValueError("auto, egl, osmesa or none")
    return value


def wanted_kinds(option: str, environ: Mapping[str, str]) -> tuple[GlKind, ...]:
    """Returns what is to be tried, in order.

    The backend's option decides; where it is `auto`, the variable MUJOCO_GL does, which every user of MuJoCo knows.

    Args:
        option: auto, egl, osmesa or none.
        environ: Environment variables.

    Raises:
        BackendError: MUJOCO_GL has a value that MuJoCo does not know either.
    """
    named = environ.get("MUJOCO_GL", "").strip().lower()
    possible = (*KINDS, "disable", "glfw")
    if named not in (*KINDS, *_OFF, *_ANY):
        raise BackendError(
            f"the environment variable {VARIABLE} is {quoted(named)}; there are: {choices(possible)}"
        )
    wanted = named if option == "auto" else option
    if wanted in _OFF or wanted == "none":
        return ()
    return tuple(kind for kind in KINDS if wanted in (kind, "auto", *_ANY))


def find_gl(option: str) -> GlChoice:
    """Returns the first OpenGL that works, tried in a process of its own: a broken driver crashes that one alone.

    Args:
        option: auto, egl, osmesa or none.

    Raises:
        BackendError: MUJOCO_GL has a value that does not exist.
    """
    kinds = wanted_kinds(option, os.environ)
    if not kinds:
        return GlChoice(kind=None, reason="it was switched off")
    reasons = []
    for kind in kinds:
        reason = probe(kind)
        if not reason:
            return GlChoice(kind=kind)
        reasons.append(f"{kind}: {reason}")
    return GlChoice(kind=None, reason="; ".join(reasons))


@cache
def probe(kind: GlKind) -> str:
    """Returns "" where a context of this kind can be made and drawn to, else why not. Asked once per process."""
    if "python" not in Path(sys.executable or "").name.lower():
        # A host with an interpreter inside: its executable is no Python that could be asked.
        return ""
    environment = {**os.environ, VARIABLE: kind, _PLATFORM: kind, "PYTHONPATH": os.pathsep.join(sys.path)}
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter, and nothing from outside
            [sys.executable, "-c", _PROBE.format(kind=kind)],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_PROBE_SECONDS:g} s"
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return ""
    if done.returncode < 0:
        return f"its library crashes (signal {-done.returncode})"
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"


def make_context(kind: GlKind, width: int, height: int) -> Any:
    """Returns a mujoco GLContext that is current in the calling thread.

    Args:
        kind: What it is made of; one kind per process, because PyOpenGL binds to one.
        width: Pixels, of the largest picture.
        height: Pixels.

    Raises:
        Exception: What the libraries raise where it cannot be made.
    """
    context = _take_kept(kind)
    if context is not None:
        context.make_current()
        return context
    # PyOpenGL is told its platform by a variable, which it reads once.
    with _variables({_PLATFORM: kind}):
        context = import_module(f"mujoco.{kind}").GLContext(width, height)
    context.make_current()
    return context


def give_back(kind: GlKind, context: Any) -> None:
    """Takes a context back that is current in the calling thread, and keeps one for the next who wants it.

    A new one costs MuJoCo 0.1 s to get ready, and holds up all Python threads meanwhile: where a scene follows
    another one, time would stumble.
    """
    if kind != "egl":
        context.free()
        return
    from OpenGL import EGL

    display = import_module("mujoco.egl").EGL_DISPLAY
    EGL.eglMakeCurrent(display, EGL.EGL_NO_SURFACE, EGL.EGL_NO_SURFACE, EGL.EGL_NO_CONTEXT)
    # Once, and after mujoco's own, which ends the display: what was registered last is called first.
    _free_at_exit()
    with _kept_lock:
        spare, _kept[:] = list(_kept), [context]
    for each in spare:
        each.free()


def _take_kept(kind: GlKind) -> Any:
    with _kept_lock:
        return _kept.pop() if _kept and kind == "egl" else None


@cache
def _free_at_exit() -> None:
    atexit.register(_free_kept)


def _free_kept() -> None:
    context = _take_kept("egl")
    if context is not None:
        context.free()


def import_mujoco() -> None:
    """Imports MuJoCo, also where its own look at MUJOCO_GL makes that fail: physics needs no OpenGL.

    Raises:
        BackendError: MUJOCO_GL has a value that does not exist.
        ImportError: MuJoCo is not installed.
    """
    wanted_kinds("auto", os.environ)
    try:
        import_module("mujoco")
    except ImportError:
        raise
    except Exception:  # noqa: BLE001 - what PyOpenGL raises where the library that it was told of is not there
        with _variables({VARIABLE: "disable"}):
            import_module("mujoco")


@contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables, and leaves them as they were: they are the host's."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
