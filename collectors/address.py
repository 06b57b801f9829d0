"""Addresses as they may be shown."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit


def shown_address(url: str) -> str:
    """The address without a user and password in it: it stands in metrics, logs and answers of the API."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    if "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
