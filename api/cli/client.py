"""A small HTTP client for the commands that ask a running service; standard library only, so that it starts at once."""

from __future__ import annotations

import argparse
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from telemetry.errors import BadReply, ConfigError, SourceUnreachable

DEFAULT_URL = "http://127.0.0.1:8470"
TIMEOUT_S = 10.0
MAX_BYTES = 64 * 2**20


class NotFound(BadReply):
    """The service does not know what was asked for."""


def add_url_argument(parser: argparse.ArgumentParser) -> None:
    """The flag that every asking command has."""
    parser.add_argument("--url", default=DEFAULT_URL, help=f"address of the running service (default {DEFAULT_URL})")
    parser.add_argument("--json", action="store_true", help="print the service's answer as JSON")


def quote(part: str) -> str:
    """A path segment, safe to put into an address."""
    return urllib.parse.quote(part, safe=":")


def ask(base: str, path: str, *, method: str = "GET") -> Any:
    """The JSON answer to one request.

    Raises:
        ConfigError: the base address is not http.
        SourceUnreachable: nothing listens there, or no answer in time.
        NotFound: the service answered 404.
        BadReply: another error status, or not JSON.
    """
    if not base.startswith(("http://", "https://")):
        raise ConfigError(f"--url {base!r} is not an http address", mend=f"Write it like {DEFAULT_URL}")
    url = base.rstrip("/") + path
    request = urllib.request.Request(url, method=method, headers={"Accept": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:
            return json.loads(reply.read(MAX_BYTES))
    except urllib.error.HTTPError as error:
        if error.code == 503 and path.startswith(("/-/", "/v1/health")):
            return json.loads(error.read(MAX_BYTES))
        kind = NotFound if error.code == 404 else BadReply
        raise kind(url, _detail(error)) from error
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        raise SourceUnreachable(base, f"no answer ({reason})", mend="Is 'gpucast serve' running there?") from error
    except ValueError as error:
        raise BadReply(url, "the answer is not JSON", mend="Is this a gpucast service?") from error


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        problem = json.loads(error.read(MAX_BYTES))
        return str(problem.get("detail") or problem.get("title") or f"status {error.code}")
    except (ValueError, AttributeError):
        return f"status {error.code}"
