"""The cache of built wheels: what is kept comes back, and nothing that another user could have written is used."""

from __future__ import annotations

import importlib.util
import os
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from usd_ros_bridge.process_settings import user_cache

pytestmark = pytest.mark.project

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def module() -> ModuleType:
    """tools/ is no package."""
    spec = importlib.util.spec_from_file_location("wheel_cache", ROOT / "tools" / "wheel_cache.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "a-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.py", "x = 1\n" * 1000)
    return path


def test_kept_wheel_comes_back(module: ModuleType, wheel: Path, tmp_path: Path) -> None:
    cache = module.WheelCache(tmp_path / "some" / "cache")
    assert cache.get("key") is None
    cache.put("key", wheel)
    found = cache.get("key")
    assert (found.name, found.read_bytes()) == (wheel.name, wheel.read_bytes())
    assert cache.get("other") is None


@pytest.mark.parametrize("part", ["directory", "folder", "wheel"])
@pytest.mark.parametrize("fault", ["writable for the group", "writable for all", "of another user", "a link"])
def test_nothing_that_others_may_write_is_used(
    module: ModuleType, wheel: Path, tmp_path: Path, part: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "cache"
    cache = module.WheelCache(directory)
    cache.put("key", wheel)
    folder = directory / "key"
    path = {"directory": directory, "folder": folder, "wheel": folder / wheel.name}[part]
    if fault == "a link":
        path.rename(tmp_path / "moved")
        path.symlink_to(tmp_path / "moved")
    elif fault == "of another user":
        if os.geteuid() == 0:
            os.chown(path, 12345, -1)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: 12345)
    else:
        path.chmod(path.stat().st_mode | (0o020 if "group" in fault else 0o002))
    with pytest.raises(module.CacheError, match="is a link, or another user owns it or may write it"):
        cache.get("key")


@pytest.mark.parametrize("there", ["writable for all", "empty", "a file", "a link"])
def test_what_cannot_be_used_is_replaced(module: ModuleType, wheel: Path, tmp_path: Path, there: str) -> None:
    cache = module.WheelCache(tmp_path / "cache")
    cache.put("key", wheel)
    folder = tmp_path / "cache" / "key"
    if there == "writable for all":
        folder.chmod(0o777)
    else:
        folder.rename(tmp_path / "moved")
        if there == "empty":
            folder.mkdir()
        elif there == "a file":
            folder.touch()
        else:
            folder.symlink_to(tmp_path / "moved")
    with pytest.raises(module.CacheError):
        cache.get("key")
    cache.put("key", wheel)
    assert cache.get("key").read_bytes() == wheel.read_bytes()


@pytest.mark.parametrize("content", [b"", b"no zip file", None])
def test_damaged_wheel_is_not_used(
    module: ModuleType, wheel: Path, tmp_path: Path, content: bytes | None
) -> None:
    cache = module.WheelCache(tmp_path / "cache")
    cache.put("key", wheel)
    kept = cache.get("key")
    original = bytearray(kept.read_bytes())
    original[200] ^= 0xFF
    kept.write_bytes(bytes(original) if content is None else content)
    with pytest.raises(module.CacheError, match=r"\.whl is damaged"):
        cache.get("key")


def test_every_truncated_wheel_is_damaged(module: ModuleType, wheel: Path, tmp_path: Path) -> None:
    cache = module.WheelCache(tmp_path / "cache")
    cache.put("key", wheel)
    kept = cache.get("key")
    whole = kept.read_bytes()
    for size in range(len(whole)):
        kept.write_bytes(whole[:size])
        with pytest.raises(module.CacheError, match="is damaged"):
            cache.get("key")


def test_directory_that_cannot_be_read_or_written_is_named(
    module: ModuleType, wheel: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    cache = module.WheelCache(tmp_path / "file" / "cache")
    with pytest.raises(module.CacheError, match=r"the cache cannot be read: .*file/cache"):
        cache.get("key")
    with pytest.raises(module.CacheError, match=r"the cache cannot be written: .*file"):
        cache.put("key", wheel)


def test_only_the_keys_used_last_stay(module: ModuleType, wheel: Path, tmp_path: Path) -> None:
    cache = module.WheelCache(tmp_path / "cache")
    for number in range(module.MOST):
        cache.put(f"key{number}", wheel)
        os.utime(tmp_path / "cache" / f"key{number}", (number, number))
    assert cache.get("key0") is not None
    cache.put("new", wheel)
    kept = {path.name for path in (tmp_path / "cache").iterdir()}
    assert kept == {"new", "key0", *(f"key{number}" for number in range(2, module.MOST))}


@pytest.mark.parametrize("root", ["", "relative", "/some/where"])
def test_it_is_where_the_caches_of_the_bridge_are(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, root: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", root)
    assert module.default_directory() == user_cache("interfaces")
