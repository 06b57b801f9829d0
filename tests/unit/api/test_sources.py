"""Service discovery that fails says what it asked and what it got."""

from __future__ import annotations

import asyncio

import pytest

from api.sources import discover
from telemetry.errors import ConfigError
from tests.kit.page_server import Handler, serve, text_page


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        (text_page(b"<html>"), "is not a Prometheus http_sd list"),
        (text_page(b"\xff"), "is not a Prometheus http_sd list"),
        (text_page(b"[1]"), "is not a Prometheus http_sd list"),
        (text_page(b'[{"targets": 5}]'), "is not a Prometheus http_sd list"),
        (text_page(b'[{"labels": {}}]'), "is not a Prometheus http_sd list"),
        (text_page(b'[{"targets": ["bad host"]}]'), "is not a Prometheus http_sd list"),
        (text_page(b"[]"), "lists no target"),
        (text_page(b"", status=503), "gives no answer"),
    ],
)
def test_what_is_no_list_of_targets_is_refused(page: Handler, sentence: str) -> None:
    """A sentence that names the address, whatever comes back."""

    async def main() -> None:
        async with serve(page) as url:
            with pytest.raises(ConfigError, match=f"targets_from {url}/sd {sentence}"):
                await asyncio.to_thread(discover, f"{url}/sd")

    asyncio.run(main())


def test_labels_of_the_list_make_the_address() -> None:
    """As Prometheus understands ``__scheme__`` and ``__metrics_path__``; the node is taken from the labels."""
    listed = b'[{"targets": ["h:1"], "labels": {"__scheme__": "https", "__metrics_path__": "/m", "node": "n1"}}]'

    async def main() -> list[tuple[str, str]]:
        async with serve(text_page(listed)) as url:
            return [(target.url, target.node) for target in await asyncio.to_thread(discover, f"{url}/sd")]

    assert asyncio.run(main()) == [("https://h:1/m", "n1")]
