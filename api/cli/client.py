"""A small HTTP client for the commands that ask a running service; standard library only, so that it starts at once."""

from __future__ import annotations

import argparse
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import Any

from telemetry.errors import BadReply, ConfigError, SourceUnreachable

DEFAULT_URL = "http://127.0.0.1:8470"
TIMEOUT_S = 10.0
MAX_BYTES = 64 * 2**20
_STRANGER = "Is this a gpucast service?"


class NotFound(BadReply):
    """The service does not know what was asked for."""


def add_url_argument(parser: argparse.ArgumentParser) -> None:
    """The flag that every asking command has."""
    parser.add_argument("--url", default=DEFAULT_URL, help=f"address of the running service (default {DEFAULT_URL})")
    parser.add_argument("--json", action="store_true", help="print the service's answer as JSON")


def quote(part: str) -> str:
    """A path segment, safe to put into an address."""
    return urllib.parse.quote(part, safe=":")


def ask(base: str, path: str, *, method: str = "GET", needs: Sequence[str] = ()) -> dict[str, Any]:
    """The JSON answer to one request.

    Args:
        base: address of the service.
        path: what to ask for.
        method: of the request.
        needs: names that the answer must have; without them something else than gpucast answers.

    Raises:
        ConfigError: the base address is not http.
        SourceUnreachable: nothing listens there, or no answer in time.
        NotFound: the service does not know the id asked for.
        BadReply: another error status, or no answer of gpucast's.
    """
    url = _checked(base) + path
    request = urllib.request.Request(url, method=method, headers={"Accept": "application/json"})
    try:
        with _opener(base).open(request, timeout=TIMEOUT_S) as reply:
            answer = json.loads(reply.read(MAX_BYTES))
    except urllib.error.HTTPError as error:
        raise _refusal(url, error) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error) or type(error).__name__
        raise SourceUnreachable(base, f"no answer ({reason})", mend="Is 'gpucast serve' running there?") from error
    except ValueError as error:
        raise BadReply(url, "the answer is not JSON", mend=_STRANGER) from error
    if not isinstance(answer, dict):
        raise BadReply(url, "the answer is JSON of something else", mend=_STRANGER)
    missing = [name for name in needs if name not in answer]
    if missing:
        raise BadReply(url, f"the answer has no {missing[0]!r}", mend=_STRANGER)
    return answer


def _checked(base: str) -> str:
    """The base address without its last slash."""
    try:
        parts = urllib.parse.urlsplit(base)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or any(letter.isspace() for letter in base):
        raise ConfigError(f"--url {base!r} is not an http address", mend=f"Write it like {DEFAULT_URL}")
    return base.rstrip("/")


def _opener(base: str) -> urllib.request.OpenerDirector:
    """No proxy stands between us and this machine, whatever the environment says."""
    if urllib.parse.urlsplit(base).hostname in ("127.0.0.1", "localhost", "::1"):
        return urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener()


def _refusal(url: str, error: urllib.error.HTTPError) -> BadReply:
    """What an error status means: gpucast explains each with a problem document."""
    try:
        problem = json.loads(error.read(MAX_BYTES))
        kind, detail = str(problem["type"]), str(problem.get("detail") or problem.get("title"))
    except (OSError, http.client.HTTPException, ValueError, TypeError, KeyError, AttributeError):
        return BadReply(url, f"status {error.code}", mend=_STRANGER)
    if error.code == 404 and kind.startswith("urn:gpucast:problem:unknown-"):
        return NotFound(url, detail)
    return BadReply(url, detail)
