"""Benchmarks of the bridge, in turns with comparable programs: `make bench`."""

import sys
from pathlib import Path

# Robots and stages of the benchmarks are built as those of the tests are.
sys.path.append(str(Path(__file__).resolve().parents[1] / "test" / "support"))
