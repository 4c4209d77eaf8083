"""The site of `make site` has no broken link, and opens in a browser."""

from __future__ import annotations

import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

SITE = Path(__file__).parents[2] / "build" / "site"
PAGES = sorted(SITE.glob("*.html"))


class Page(HTMLParser):
    """The ids, and the links, of a page."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links = set(), set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.ids.add(attributes.get("id"))
        self.links |= {attributes.get("href"), attributes.get("src")} - {None, ""}


def test_there_is_a_page_for_each_page_of_the_docs():
    docs = {path.stem for path in (SITE.parents[1] / "docs").glob("*.md")}
    assert {path.stem for path in PAGES} >= docs | {"index", "CHANGELOG"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_each_link_leads_to_a_file_and_a_heading(path):
    broken = []
    for link in Page(path).links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = SITE / unquote(parts.path.lstrip("/")) if parts.path else path
        heading = unquote(parts.fragment)
        if not target.exists() or (heading and heading not in Page(target).ids ):
            broken.append(link)
    assert not broken


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_shows_the_first_page():
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    page = f"file://{SITE / 'index.html'}"
    shown = subprocess.run(
        ["chromium", *options, page], capture_output=True, text=True, timeout=120, check=True
    ).stdout
    assert "dlmon exec -- python train.py" in shown
