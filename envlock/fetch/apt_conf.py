"""apt.conf's syntax: scopes in braces or joined by `::`, values in quotes, three kinds of comments."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["settings"]

# Quoted values come before comments: a URL has two slashes in it. A line that begins with # is a comment, too.
_TOKEN = re.compile(r'"([^"\n]*)"|//[^\n]*|/\*.*?\*/|(?m:^[ \t]*#[^\n]*)|([{};])|([^\s{};"]+)', re.DOTALL)


def settings(text: str) -> Iterator[tuple[str, str]]:
    """Pairs of full name, in lower case ("acquire::http::proxy"), and value, in order."""
    scopes: list[str] = []
    name, value = "", ""
    for match in _TOKEN.finditer(text):
        quoted, sign, word = match.groups()
        if quoted is not None:
            value = quoted
        elif word:
            name, value = (name, word) if name else (word, "")
        elif sign == "{":
            scopes.append(name.lower())
            name, value = "", ""
        elif sign in {";", "}"}:
            if name and sign == ";":
                yield "::".join([*filter(None, scopes), name.lower()]), value
            if sign == "}" and scopes:
                scopes.pop()
            name, value = "", ""
