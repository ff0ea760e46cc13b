"""How large a file is, where its index does not say."""

from __future__ import annotations

import re
from http import HTTPStatus

from envlock.fetch.http import Http
from envlock.fetch.model import IndexFile
from envlock.fetch.urls import local_path

__all__ = ["size_of"]

_SIZE = re.compile(r"\d{1,18}")
_TOTAL = re.compile(rf"bytes \d+-\d+/({_SIZE.pattern})")


def size_of(file: IndexFile, http: Http) -> int | None:
    """Bytes, asked of the file's server by one byte's range; None where it does not tell."""
    local = local_path(file.url)
    if local is not None:
        return local.stat().st_size
    headers = {"Range": "bytes=0-0", "Accept-Encoding": "identity"}
    with http.get(file.url, headers=headers, stream=True) as response:
        total = _TOTAL.fullmatch(response.headers.get("content-range", ""))
        if total is not None:
            return int(total[1])
        length = response.headers.get("content-length", "")
        return int(length) if response.status_code == HTTPStatus.OK and _SIZE.fullmatch(length) else None
