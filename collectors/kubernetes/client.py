"""Lists of the Kubernetes API, page by page. Only GET; bounded in time, size and number."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from collectors.address import shown_address
from telemetry.samples import Problem

MIB = 2**20
PAGE_ITEMS = 500
MAX_ITEMS = 500_000
"""Above three times the largest cluster that Kubernetes supports (150,000 pods)."""
_POD_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_MAX_TOKEN_BYTES = 65_536
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class ListFailed(Exception):
    """No usable list; carries the finding's kind and sentence, and the HTTP status where there was one."""

    def __init__(self, problem: Problem, detail: str, status: int = 0) -> None:
        super().__init__(detail)
        self.problem = problem
        self.detail = detail
        self.status = status


class KubernetesLists:
    """Reads lists of one API server.

    Args:
        url: of the server; empty takes the one of the pod that this runs in.
        token_file: file with a bearer token, read anew for each list; None takes the pod's own where there is one. It is
            sent over https, or to this machine, only.
        ca_file: certificate of the server's issuer; None takes the pod's own, else the system's.
        timeout_s: for each page.
        max_bytes: of each page.
        page_items: objects of a page.
    """

    def __init__(
        self,
        url: str = "",
        *,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        timeout_s: float = 10.0,
        max_bytes: int = 128 * MIB,
        page_items: int = PAGE_ITEMS,
    ) -> None:
        self._url = (url or _own_address()).rstrip("/")
        self.name = shown_address(self._url) if self._url else "kubernetes"
        own = not url and (_POD_FOLDER / "token").exists()
        self._token_file = token_file or (_POD_FOLDER / "token" if own else None)
        self._ca_file = ca_file or (_POD_FOLDER / "ca.crt" if own else None)
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._page_items = page_items
        self._session: aiohttp.ClientSession | None = None

    async def items(self, path: str, **query: str) -> AsyncIterator[list[Any]]:
        """The objects of a list, a page at a time.

        Args:
            path: such as ``/api/v1/pods``.
            query: such as ``fieldSelector``.

        Raises:
            ListFailed: no answer, a refusal, or nothing that can be used. Pages given before are then of no list.
        """
        token, count = "", 0
        while True:
            asked = {**query, "limit": str(self._page_items), **({"continue": token} if token else {})}
            document = await self._get(path, asked)
            items = document.get("items")
            if items is None:
                items = []  # how an empty list is written
            if not isinstance(items, list):
                raise ListFailed(Problem.NOT_TEXT, f"{path} answers with JSON that is no list")
            count += len(items)
            if count > MAX_ITEMS:
                raise ListFailed(Problem.TOO_LARGE, f"{path} has more than {MAX_ITEMS} objects")
            yield items
            meta = document.get("metadata")
            following = meta.get("continue") if isinstance(meta, dict) else ""
            if not isinstance(following, str) or not following:
                return
            if following == token or not items:
                raise ListFailed(Problem.PARTIAL, f"{path} gives the same page again and again")
            token = following

    async def close(self) -> None:
        """Release the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _get(self, path: str, query: dict[str, str]) -> dict[str, Any]:
        status, body = await self._ask(path, query)
        try:
            document = orjson.loads(body) if body.strip() else None
        except orjson.JSONDecodeError as torn:
            kind = Problem.TORN if body.lstrip().startswith(b"{") else Problem.NOT_TEXT
            if status != 200:
                raise ListFailed(Problem.HTTP_STATUS, f"HTTP {status} to {path}", status) from torn
            raise ListFailed(kind, f"{path} answers with something that is no JSON") from torn
        if status == 200 and isinstance(document, dict):
            return document
        if status == 200:
            raise ListFailed(Problem.EMPTY, f"{path} answers with nothing")
        said = document.get("message") if isinstance(document, dict) else ""
        raise ListFailed(*_why(status, path, said if isinstance(said, str) else ""), status)

    async def _ask(self, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        if not self._url:
            mend = "set kubernetes.url, or run in a pod with a service account"
            raise ListFailed(Problem.UNREACHABLE, f"no address of the Kubernetes API is known; {mend}")
        if self._session is None:
            self._session = self._open()
        try:
            async with self._session.get(
                f"{self._url}{path}", params=query, headers=self._headers(), allow_redirects=False
            ) as reply:
                chunks, size = [], 0
                async for chunk in reply.content.iter_any():
                    size += len(chunk)
                    if size > self._max_bytes:
                        text = f"a page of {path} is larger than {self._max_bytes / MIB:g} MiB"
                        raise ListFailed(Problem.TOO_LARGE, text)
                    chunks.append(chunk)
                return reply.status, b"".join(chunks)
        except TimeoutError as slow:
            raise ListFailed(Problem.TIMEOUT, f"no whole page of {path} within {self._timeout_s:g} s") from slow
        except aiohttp.ClientPayloadError as broken:
            raise ListFailed(Problem.TORN, f"the connection broke within a page of {path}") from broken
        except (aiohttp.ClientError, OSError, ValueError) as dead:
            text = str(dead).strip() or type(dead).__name__
            raise ListFailed(Problem.UNREACHABLE, f"cannot be reached: {text}") from dead

    def _open(self) -> aiohttp.ClientSession:
        """A session that trusts the server's issuer.

        Raises:
            ListFailed: the certificate file cannot be read.
        """
        context: ssl.SSLContext | bool = True
        if self._ca_file is not None:
            try:
                context = ssl.create_default_context(cafile=str(self._ca_file))
            except (OSError, ssl.SSLError) as bad:
                raise ListFailed(Problem.UNREACHABLE, f"cannot use the certificate {self._ca_file}: {bad}") from bad
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context),
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
            headers={"Accept": "application/json"},
        )

    def _headers(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        parts = urlsplit(self._url)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise ListFailed(
                Problem.UNREACHABLE, "a token is sent over https only; set kubernetes.url to an https address"
            )
        try:
            with self._token_file.open("rb") as file:
                token = file.read(_MAX_TOKEN_BYTES).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as bad:
            raise ListFailed(Problem.UNREACHABLE, f"cannot read the token file {self._token_file}: {bad}") from bad
        if not token or any(not letter.isprintable() or letter.isspace() for letter in token):
            raise ListFailed(Problem.UNREACHABLE, f"the token file {self._token_file} holds no token")
        return {"Authorization": f"Bearer {token}"}


def _why(status: int, path: str, said: str) -> tuple[Problem, str]:
    if status == 401:
        return Problem.QUERY_ERROR, f"HTTP 401 to {path}: the token is missing or expired"
    if status == 403:
        return Problem.QUERY_ERROR, f"HTTP 403: may not list {path}; grant get and list on it ({said[:200]})"
    if status == 410:
        return Problem.PARTIAL, f"{path} changed too much while it was read; it is read anew next time"
    return Problem.HTTP_STATUS, f"HTTP {status} to {path}{f': {said[:200]}' if said else ''}"


def _own_address() -> str:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    return f"https://{f'[{host}]' if ':' in host else host}:{port}" if host else ""
