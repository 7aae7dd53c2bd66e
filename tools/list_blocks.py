"""List every block of the documents with what a test does with it; see CONTRIBUTING.md.

python tools/list_blocks.py
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test" / "support"))

from doc_walk import treatments


def main() -> None:
    counts: Counter[str] = Counter()
    for block, treatment in treatments():
        print(f"{block!s:<44} {block.language:<8} {treatment}")
        counts[treatment.partition(":")[0].partition(" to ")[0]] += 1
    print(", ".join(f"{number} {treatment}" for treatment, number in counts.most_common()))


if __name__ == "__main__":
    main()
