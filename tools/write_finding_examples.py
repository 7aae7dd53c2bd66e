"""Write docs/reference/diagnostic_examples.md from the assets in test/assets/findings/.

python tools/write_finding_examples.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test" / "support"))

from finding_examples import PAGE, page


def main() -> None:
    PAGE.write_text(page())
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
