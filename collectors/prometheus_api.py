"""The Prometheus HTTP API through prometheus-api-client, with the parts of an answer that the client drops."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any
from urllib.parse import urlsplit

import orjson
import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from collectors.address import shown_address
from collectors.answer import Answer, is_answer, read_answer
from telemetry.errors import BadReply, SourceUnreachable

_RETRIES = Retry(
    total=2,
    connect=2,
    read=False,
    status=2,
    backoff_factor=0.2,
    status_forcelist=[429, 502, 503],
    raise_on_status=False,
)
MAX_BYTES = 64 * 2**20
"""Of one answer after decompression; the span asked for is halved beyond it."""
_PIECE_BYTES = 64 * 1024
_EPOCH = dt.datetime.fromtimestamp(0, tz=dt.UTC)


class _TooMuch(requests.exceptions.RequestException):
    """An answer beyond the cap."""


class PrometheusApi:
    """Queries of one server. Blocks: call it in a thread. Not for two threads at once.

    The client library gives back ``data.result`` only; a hook on its session keeps the whole answer, so that warnings
    and the error's own words are not lost, and spares the library its slow second parse.

    Args:
        url: of the server.
        timeout_s: for each request; always sent, the library's own default is to wait for ever.
        headers: sent with each request.
        max_bytes: of one answer.
    """

    def __init__(
        self, url: str, *, timeout_s: float, headers: dict[str, str] | None = None, max_bytes: int = MAX_BYTES
    ) -> None:
        self._max_bytes = max_bytes
        self._url = shown_address(url)
        self._timeout_s = timeout_s
        self._session = requests.Session()
        if urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1"):
            self._session.trust_env = False  # no proxy stands between us and this machine
        self._session.hooks["response"].append(self._keep)
        self._document: Any = None
        self._status = 0
        self._client = PrometheusConnect(
            url=url, headers=headers, session=self._session, retry=_RETRIES, timeout=timeout_s
        )

    def instant(self, query: str, at_s: float) -> Answer:
        """The answer to an instant query, which may select a range.

        Raises:
            SourceUnreachable: no answer within the time.
            BadReply: an HTTP status other than 200, or no Prometheus answer; ``retry_smaller`` tells whether a
                smaller question may do.
        """
        return self._ask(lambda: self._client.custom_query(query, params={"time": f"{at_s:.3f}"}))

    def range(self, query: str, start_s: float, end_s: float, step_s: float) -> Answer:
        """The answer to a range query; both ends are inclusive.

        Raises:
            SourceUnreachable: no answer within the time.
            BadReply: as for ``instant``.
        """
        # The library takes datetimes and rounds them to whole seconds; params override that with Unix seconds.
        exact = {"start": f"{start_s:.3f}", "end": f"{end_s:.3f}"}
        return self._ask(lambda: self._client.custom_query_range(query, _EPOCH, _EPOCH, f"{step_s:.3f}", params=exact))

    def metric_names(self) -> list[str]:
        """Every family that the server knows.

        Raises:
            SourceUnreachable: no answer within the time.
            BadReply: as for ``instant``.
        """
        names: list[str] = []
        self._guard(lambda: names.extend(str(name) for name in self._client.get_label_values("__name__")))
        return names

    def close(self) -> None:
        """Release the connections."""
        self._session.close()

    def _ask(self, call: Any) -> Answer:
        self._guard(call)
        return read_answer(self._document, self._url)

    def _guard(self, call: Any) -> None:
        """Run one call of the library and translate what it raises."""
        self._document, self._status = None, 0
        try:
            call()
        except _TooMuch as big:
            raise BadReply(self._url, str(big), error_type="too_much", retry_smaller=True) from big
        except requests.exceptions.Timeout as slow:
            raise SourceUnreachable(self._url, f"no answer within {self._timeout_s:g} s") from slow
        except PrometheusApiClientException as refused:
            raise self._refusal() from refused
        except requests.exceptions.ConnectionError as dead:
            raise SourceUnreachable(self._url, f"cannot be reached: {_shortest(dead)}") from dead
        except (requests.exceptions.RequestException, ValueError, KeyError, TypeError) as odd:
            if self._status == 200 and is_answer(self._document):
                return  # an answer without data.result, which read_answer judges
            raise BadReply(
                self._url,
                f"HTTP {self._status}: the answer is no JSON of the Prometheus API",
                mend="Is this the address of a Prometheus server?",
            ) from odd

    def _refusal(self) -> BadReply:
        if is_answer(self._document):
            answer = read_answer(self._document, self._url)
            return BadReply(
                self._url,
                f"{answer.error_type}: {answer.error}",
                error_type=answer.error_type,
                retry_smaller=answer.retry_smaller,
            )
        mend = "Check the address and the credentials" if self._status in (401, 403, 404) else ""
        return BadReply(self._url, f"HTTP {self._status}", mend=mend, error_type="http")

    def _keep(self, response: requests.Response, *_: Any, **__: Any) -> requests.Response:
        self._status = response.status_code
        response._content = self._whole(response)  # as requests itself does when it reads the content
        response._content_consumed = True
        try:
            self._document = orjson.loads(response.content)
        except orjson.JSONDecodeError:
            self._document = None
            return response
        document = self._document
        response.json = lambda **_: document  # type: ignore[method-assign]
        return response

    def _whole(self, response: requests.Response) -> bytes:
        """The body, read piece by piece: ``requests`` limits neither its size nor the time it takes as a whole."""
        pieces: list[bytes] = []
        size, until_s = 0, time.monotonic() + self._timeout_s
        while piece := _piece(response):
            pieces.append(piece)
            size += len(piece)
            if size > self._max_bytes:
                response.close()
                raise _TooMuch(f"an answer is larger than {self._max_bytes / 2**20:.3g} MiB")
            if time.monotonic() > until_s:
                response.close()
                raise requests.exceptions.ReadTimeout
        response.raw.release_conn()
        return b"".join(pieces)


def _piece(response: requests.Response) -> bytes:
    """What has arrived of the body by now, at least one byte; empty at its end.

    Raises:
        requests.exceptions.ConnectionError: the connection broke or went silent.
    """
    try:
        return bytes(response.raw.read1(_PIECE_BYTES, decode_content=True))
    except (HTTPError, OSError) as broken:
        raise requests.exceptions.ConnectionError(broken) from broken


def _shortest(error: BaseException) -> str:
    """The innermost cause in a line; requests wraps urllib3 wraps the system."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return (str(error).splitlines() or [""])[0][:200] or type(error).__name__
