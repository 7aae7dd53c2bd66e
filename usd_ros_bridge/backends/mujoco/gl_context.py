"""OpenGL contexts without a window: find a library that works (EGL, else OSMesa), and make contexts.

This module does not import MuJoCo, whose import reads MUJOCO_GL.
"""

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

from usd_ros_bridge.errors import BackendError, alternatives, quoted

GlKind = Literal["egl", "osmesa"]

KINDS: tuple[GlKind, ...] = ("egl", "osmesa")
PACKAGES: Mapping[GlKind, str] = {"egl": "libegl1 and libgl1-mesa-dri", "osmesa": "libosmesa6"}
"""Debian and Ubuntu packages."""

VARIABLE = "MUJOCO_GL"
_OFF = ("disable", "disabled", "off", "false", "0")
# Values of mujoco that mean "with a window": they do not choose a library without one.
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
# Skip the exit handlers of the libraries: some drivers crash there after everything has worked.
os._exit(0 if drawn.offWidth else 1)
"""


_kept: list[Any] = []
_kept_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class GlChoice:
    """An OpenGL library, or why there is none.

    Attributes:
        kind: The library, None for none.
        reason: Why there is none.
    """

    kind: GlKind | None
    reason: str = ""


def gl_kinds(option: str, environ: Mapping[str, str]) -> tuple[GlKind, ...]:
    """Return the libraries to try, in order.

    The backend's option decides; where it is `auto`, MuJoCo's variable MUJOCO_GL does.

    Args:
        option: auto, egl, osmesa or none.
        environ: Environment variables.

    Raises:
        BackendError: MUJOCO_GL has an unknown value.
    """
    named = environ.get("MUJOCO_GL", "").strip().lower()
    possible = (*KINDS, "disable", "glfw")
    if named not in (*KINDS, *_OFF, *_ANY):
        raise BackendError(
            f"the environment variable {VARIABLE} is {quoted(named)}; {alternatives(named, possible)}"
        )
    wanted = named if option == "auto" else option
    if wanted in _OFF or wanted == "none":
        return ()
    return tuple(kind for kind in KINDS if wanted in (kind, "auto", *_ANY))


def find_gl(option: str) -> GlChoice:
    """Return the first OpenGL that works, tested in a process of its own: a broken driver crashes only that one.

    Args:
        option: auto, egl, osmesa or none.

    Raises:
        BackendError: MUJOCO_GL has an unknown value.
    """
    kinds = gl_kinds(option, os.environ)
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
    """Return "" where a context of this kind works, else why not. Tested once per process."""
    if "python" not in Path(sys.executable or "").name.lower():
        # A host that embeds Python: its executable is no interpreter that could run the test.
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
    """Return a mujoco GLContext that is current in the calling thread.

    Args:
        kind: Library; one per process, because PyOpenGL binds to one.
        width: Pixels, of the largest image.
        height: Pixels.

    Raises:
        Exception: An exception of the libraries: there is no context.
    """
    context = _pop_kept(kind)
    if context is not None:
        context.make_current()
        return context
    # PyOpenGL reads its platform from a variable, once.
    with _variables({_PLATFORM: kind}):
        context = import_module(f"mujoco.{kind}").GLContext(width, height)
    context.make_current()
    return context


def recycle_context(kind: GlKind, context: Any) -> None:
    """Keep a context, current in the calling thread, for the next `make_context`.

    A new one takes MuJoCo 0.1 s and blocks all Python threads meanwhile, which would delay ticks when a simulation
    follows another one.
    """
    if kind != "egl":
        context.free()
        return
    from OpenGL import EGL

    display = import_module("mujoco.egl").EGL_DISPLAY
    EGL.eglMakeCurrent(display, EGL.EGL_NO_SURFACE, EGL.EGL_NO_SURFACE, EGL.EGL_NO_CONTEXT)
    # Registered after mujoco's handler, which ends the display: the last one is called first.
    _free_at_exit()
    with _kept_lock:
        spare, _kept[:] = list(_kept), [context]
    for each in spare:
        each.free()


def _pop_kept(kind: GlKind) -> Any:
    with _kept_lock:
        return _kept.pop() if _kept and kind == "egl" else None


@cache
def _free_at_exit() -> None:
    atexit.register(_free_kept)


def _free_kept() -> None:
    context = _pop_kept("egl")
    if context is not None:
        context.free()


def import_mujoco() -> None:
    """Import MuJoCo, even where MUJOCO_GL makes its import fail: physics needs no OpenGL.

    Raises:
        BackendError: MUJOCO_GL has an unknown value.
        ImportError: MuJoCo is not installed.
    """
    gl_kinds("auto", os.environ)
    try:
        import_module("mujoco")
    except ImportError:
        raise
    except Exception:  # noqa: BLE001 - PyOpenGL raises it where the library is missing
        with _variables({VARIABLE: "disable"}):
            import_module("mujoco")


@contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables, and restore them afterwards: they belong to the host."""
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
