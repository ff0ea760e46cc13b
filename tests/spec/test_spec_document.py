"""The line of every key, checked against what tomllib makes of the same text."""

from __future__ import annotations

import codecs
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from envlock.errors import FaultyInput
from envlock.spec.document import read_document
from envlock.spec.faults import KeyPath

TRICKY = (Path(__file__).parent / "tricky.toml").read_text()


def paths(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths(inner, (*path, index))


def test_each_key_and_element_has_the_line_it_stands_on() -> None:
    document = read_document(TRICKY.encode(), "x.toml")
    # The table around [a.b] has no line of its own before its heading: all else has one.
    assert set(paths(document.values)) - set(document.lines) <= {("a",)}
    assert set(document.lines) <= set(paths(document.values))
    lines = ["", *TRICKY.split("\n")]
    for path, line in document.lines.items():
        if isinstance(path[-1], str):
            assert path[-1].replace('"', '\\"') in lines[line], path
    assert document.lines["a", "b", "list", 2] == 1 + TRICKY.split("\n").index('  { x = 1, "y z" = [ true ] },')
    assert document.lines["a", "rows", 1, "inner", 0, "m"] == 1 + TRICKY.split("\n").index("m = 3")


def test_line_ends_of_windows_do_not_shift_lines() -> None:
    unix = read_document(TRICKY.encode(), "x.toml")
    assert read_document(TRICKY.replace("\n", "\r\n").encode(), "x.toml") == unix


def test_made_up_documents_have_all_their_lines() -> None:
    dice = random.Random(7)  # noqa: S311 (no secret)

    def value(depth: int) -> str:
        kinds = ["1", "1.5e3", "true", '"a\\\\"', "'b'", '"#"', '""', '"""x\n"y"\n"""', "'''\n''x'''", "07:30:00"]
        if depth and dice.random() < 0.5:
            inner = [value(depth - 1) for _ in range(dice.randrange(4))]
            if dice.random() < 0.5:
                return "[" + ", # c ]\n ".join(inner) + ("," if inner and dice.random() < 0.5 else "") + "\n]"
            return "{ " + ", ".join(f'k{n} = "v"' for n in range(len(inner))) + " }"
        return dice.choice(kinds)

    for _ in range(200):
        text, expected = "", {}
        for number in range(dice.randrange(6)):
            text += "\n" * dice.randrange(3) + dice.choice(["", "# x\n"])
            expected[f"t{number}"] = text.count("\n") + 1
            text += f"[t{number}]\nkey = {value(3)}\n'q'.w = {value(1)}\n"
        document = read_document(text.encode(), "x.toml")
        assert set(paths(document.values)) == set(document.lines)
        assert {key: document.lines[(key,)] for key in expected} == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[env]\nname = qlora\n", "x.toml:2: not TOML: Invalid value at column 8; write"),
        ("[env]\nname = 'a'\nname = 'b'\n", "x.toml:3: not TOML: Cannot overwrite a value"),
        ("[env]\n\nname = [\n", "x.toml:3: not TOML: Invalid value"),
        ("[env\n", "x.toml:1: not TOML: "),
        ("a = " + "9" * 5000, "x.toml:1: cannot be read as TOML"),
        ("a = " + "[" * 5000, "x.toml:1: cannot be read as TOML"),
    ],
)
def test_what_is_no_toml_is_told_with_its_line(text: str, told: str) -> None:
    with pytest.raises(FaultyInput) as fault:
        read_document(text.encode(), "x.toml")
    assert fault.value.message.startswith(told)
    assert fault.value.code == "spec-faulty"


def test_what_is_no_text_is_told_with_its_line() -> None:
    with pytest.raises(FaultyInput, match=r"^x\.toml:2: byte 0xff is not UTF-8"):
        read_document(b"[env]\n\xff", "x.toml")


def test_an_empty_file_is_an_empty_document() -> None:
    assert read_document(b"", "x.toml").values == {}


def test_a_byte_order_mark_is_read_over() -> None:
    document = read_document(codecs.BOM_UTF8 + b'[env]\r\nname = "x"\r\n', "envlock.toml")
    assert document.values == {"env": {"name": "x"}}
    assert document.lines["env", "name"] == 2
