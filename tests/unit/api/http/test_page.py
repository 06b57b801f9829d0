"""The page's files: nothing from elsewhere, nothing inline, nothing missing."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from api.http.app import create_app
from api.http.page import STATIC
from tests.kit.fake_reads import FakeReads
from tests.kit.http_client import get

FILES = sorted(path for path in STATIC.iterdir() if path.is_file())
INDEX = (STATIC / "index.html").read_text(encoding="utf-8")


def test_the_page_is_served_at_the_root_and_is_revalidated() -> None:
    """An upgrade shows at the next load."""
    reply = get(create_app(FakeReads()), "/")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert reply.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_is_served_with_its_type_and_a_tag(path: object) -> None:
    """Modules need a script type under nosniff."""
    name = getattr(path, "name", "")
    reply = get(create_app(FakeReads()), f"/static/{name}")
    kind = {"js": "javascript", "css": "text/css", "svg": "image/svg+xml", "html": "text/html"}[name.rpartition(".")[2]]
    assert reply.status_code == 200
    assert kind in reply.headers["content-type"]
    assert reply.headers["etag"]


def test_nothing_is_inline_and_nothing_comes_from_another_origin() -> None:
    """The content policy would block it, so it must not be there."""
    assert not re.search(r"<script(?![^>]*\bsrc=)", INDEX)
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", INDEX)
    for path in FILES:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://(?!gpu-)", text), f"{path.name} names another origin"


def test_every_import_and_every_id_exists() -> None:
    """A module that imports a missing file, or asks for an id that the page lacks, would stop the page."""
    ids = set(re.findall(r'\bid="([^"]+)"', INDEX))
    for path in STATIC.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        for target in re.findall(r'from "\./([^"]+)"', text):
            assert (STATIC / target).is_file(), f"{path.name} imports {target}"
        wanted = set(re.findall(r'(?:\$|getElementById)\("([^"]+)"\)', text))
        assert wanted <= ids, f"{path.name} asks for {sorted(wanted - ids)}"


def test_no_path_leads_out_of_the_static_folder() -> None:
    """Neither dots nor encoded dots."""
    app = create_app(FakeReads())
    for path in ("/static/../http/app.py", "/static/%2e%2e/http/app.py", "/static/..%2fhttp%2fapp.py"):
        reply = get(app, path)
        assert reply.status_code == 404
        assert reply.headers["content-type"] == "application/problem+json"


def test_making_the_app_loads_no_heavy_library() -> None:
    """The API starts fast: models live in another process."""
    heavy = ["pandas", "sklearn", "lightgbm", "statsmodels", "scipy", "duckdb"]
    code = f"import sys, api.http.app; api.http.app.create_app(None); print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=STATIC.parents[1], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
