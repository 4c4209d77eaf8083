"""Add the pages at the root of the repository to the site, and link to what is no page there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
# A page at the root, and its name on the site.
PAGES = {
    "README.md": "index.md",
    **{name: name for name in ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")},
}
_CODE = re.compile(r"`[^`\n]+`")
_LINK_TO_SOURCE = re.compile(r"\[([^\]]+)\]\(\.\./dlmon/[^)]*\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages at the root."""
    for name, on_site in PAGES.items():
        text = (ROOT / name).read_text()
        files.append(File.generated(config, on_site, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Return a page whose links are those of the site."""
    markdown = markdown.replace("](docs/", "](")
    for name, on_site in PAGES.items():
        markdown = markdown.replace(f"](../{name}", f"]({on_site}")
    # In a table, GitHub needs \| within code; Python-Markdown shows the backslash.
    markdown = _CODE.sub(lambda code: code[0].replace(r"\|", "|"), markdown)
    return _LINK_TO_SOURCE.sub(r"\1", markdown)
