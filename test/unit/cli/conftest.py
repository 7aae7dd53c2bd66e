"""Lets the tests of this folder import helpers by name: importlib mode adds no folder to the path."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]
