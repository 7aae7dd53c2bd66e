"""Files that a page has its reader write."""

from __future__ import annotations

from pathlib import Path

from markdown_docs import blocks, page_path


def write_page_files(page: str, directory: Path) -> dict[str, Path]:
    """Write the blocks of a page that have a file name. Return the files by name.

    Args:
        page: File name of the page.
        directory: Where the reader would be.
    """
    written = {}
    for block in blocks(page_path(page)):
        if block.title and block.language not in ("sh", "text"):
            written[block.title] = directory / block.title
            written[block.title].parent.mkdir(parents=True, exist_ok=True)
            written[block.title].write_text(block.text, encoding="utf-8")
    return written
