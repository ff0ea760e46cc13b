from __future__ import annotations

import base64
import hashlib
import struct
import zlib
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from installer.scripts import Script
from reading import Layer, layer_of
from wheels_in_code import SCHEME, SITE, Member, WheelKit, record, record_row, zip_bytes

from envlock.errors import FaultyInput
from envlock.image.layers.wheel import Scheme, WheelInstall, prefix_entries, wheel_entries, wheel_paths

TEXT = b"text = 'that packs well'\n" * 1000


def installed(install: WheelInstall, scheme: Scheme = SCHEME) -> Layer:
    layer = layer_of(wheel_entries(install, scheme, compiler=None))
    made = sorted(path for path in layer.modes() if not path.endswith(("REQUESTED", "direct_url.json")))
    assert made == list(wheel_paths(install.path, scheme, file=install.file))
    return layer


def records(layer: Layer, kit: WheelKit) -> list[str]:
    return layer.files()[f"{SITE}/{kit.dist_info}/RECORD"].decode().splitlines()


def test_files_are_installed_as_they_are(tmp_path: Path) -> None:
    kit = WheelKit(files={"sample/__init__.py": TEXT, "sample/data.bin": bytes(100), "sample/empty": b""})
    files = installed(kit.write(tmp_path)).files()
    assert {path: data for path, data in files.items() if "dist-info" not in path} == {
        f"{SITE}/{path}": data for path, data in kit.files.items()
    }


def test_a_large_body_is_copied_without_being_compressed_again(tmp_path: Path) -> None:
    kit = WheelKit(files={"sample/__init__.py": TEXT})
    body = next(member.body for member in kit.members() if member.name == "sample/__init__.py")
    assert body in installed(kit.write(tmp_path)).raw


def test_a_segment_is_sorted_and_holds_its_directories_from_the_prefix_on(tmp_path: Path) -> None:
    kit = WheelKit(
        files={"b/c/d.py": b"", "b.py": b"", "b/a.py": b"", "B/z.py": b""}, entry_points="[console_scripts]\nx=b:y"
    )
    names = [member.name for member in installed(kit.write(tmp_path)).members()]
    assert names == sorted(names)
    assert names[:4] == ["opt/env", "opt/env/bin", "opt/env/bin/x", "opt/env/lib"]
    assert {f"{SITE}/b", f"{SITE}/b/c", f"{SITE}/B"} <= set(names)


def test_the_head_of_a_layer_holds_the_directories_of_the_environment() -> None:
    assert [entry.path for entry in prefix_entries(SCHEME)] == [
        "opt",
        "opt/env",
        "opt/env/bin",
        "opt/env/lib",
        "opt/env/lib/python3.13",
        SITE,
    ]


def test_a_wheel_is_written_the_same_whichever_wheels_stand_beside_it(tmp_path: Path) -> None:
    kits = [WheelKit(name=name, files={f"{name}.py": TEXT, f"{name}/x.py": b"1"}) for name in ("aaa", "bbb", "ccc")]
    segments = [list(wheel_entries(kit.write(tmp_path), SCHEME, compiler=None)) for kit in kits]
    end = layer_of([]).raw

    def raw(*which: int) -> bytes:
        segment = chain(
            prefix_entries(SCHEME), *(wheel_entries(kits[at].write(tmp_path), SCHEME, compiler=None) for at in which)
        )
        return layer_of(segment).raw.removesuffix(end)

    head = raw()
    assert len(segments[0]) > 5
    assert raw(0, 1, 2) == head + b"".join(raw(at).removeprefix(head) for at in range(3))


def test_record_lists_every_file_with_its_hash_sorted(tmp_path: Path) -> None:
    kit = WheelKit(
        files={"sample/__init__.py": TEXT, "sample/a, b.txt": b"comma", "sample-1.0.data/data/etc/x.conf": b"x"},
        entry_points="[console_scripts]\nrun = sample:main\n",
    )
    layer = installed(kit.write(tmp_path))
    rows = records(layer, kit)
    assert rows == sorted(rows, key=lambda row: row.strip('"'))
    assert '"sample/a, b.txt",sha256=' in "\n".join(rows)
    assert ",".join(record_row("sample/__init__.py", TEXT)) in rows
    assert ",".join(record_row("../../../etc/x.conf", b"x")) in rows
    assert ",".join(record_row("../../../bin/run", layer.files()["opt/env/bin/run"])) in rows
    assert ",".join(record_row("sample-1.0.dist-info/INSTALLER", b"envlock\n")) in rows
    assert "sample-1.0.dist-info/RECORD,," in rows
    assert len(rows) == len(layer.modes())


def test_hashes_of_every_strength_and_spelling_are_taken_and_written_as_the_standard_says(tmp_path: Path) -> None:
    digests = {name: hashlib.new(name, TEXT).digest() for name in ("sha256", "sha384", "sha512")}
    spelt = {name: base64.urlsafe_b64encode(digest).decode() for name, digest in digests.items()}
    files = {f"{name}{kind}.py": TEXT for name in digests for kind in ("", "padded", "hex")}
    honest = WheelKit(files=files)
    rows = {row[0]: row for row in (record_row(str(member.name), member.data) for member in honest.members()[:-1])}
    for name, digest in digests.items():
        rows[f"{name}.py"][1] = f"{name}={spelt[name].rstrip('=')}"
        rows[f"{name}padded.py"][1:] = f"{name}={spelt[name]}", ""
        rows[f"{name}hex.py"][1] = f"{name}={digest.hex()}"
    layer = installed(replace(honest, record=record(rows.values())).write(tmp_path))
    written = {row.split(",")[0]: row.split(",")[1:] for row in records(layer, honest)}
    assert {tuple(written[path]) for path in files} == {
        (f"{name}={spelt[name].rstrip('=')}", str(len(TEXT))) for name in digests
    }


def test_the_installers_own_files_are_made_anew(tmp_path: Path) -> None:
    own = {"sample-1.0.dist-info/INSTALLER": b"somebody\n", "sample-1.0.dist-info/REQUESTED": b""}
    own["sample-1.0.dist-info/direct_url.json"] = b"{}"
    kit = WheelKit(files={"sample.py": b"", **own})
    install = kit.write(tmp_path)
    plain = installed(install).files()
    assert plain[f"{SITE}/sample-1.0.dist-info/INSTALLER"] == b"envlock\n"
    assert f"{SITE}/sample-1.0.dist-info/REQUESTED" not in plain
    assert f"{SITE}/sample-1.0.dist-info/direct_url.json" not in plain
    layer = installed(replace(install, requested=True, direct_url='{"url": "u"}'))
    assert layer.files()[f"{SITE}/sample-1.0.dist-info/REQUESTED"] == b""
    assert layer.files()[f"{SITE}/sample-1.0.dist-info/direct_url.json"] == b'{"url": "u"}'
    assert ",".join(record_row("sample-1.0.dist-info/direct_url.json", b'{"url": "u"}')) in [
        row.replace('""', '"') for row in records(layer, kit)
    ]


def test_signatures_of_record_are_installed_and_listed_without_a_hash(tmp_path: Path) -> None:
    kit = WheelKit(files={"sample.py": b"", "sample-1.0.dist-info/RECORD.jws": b"signed"})
    layer = installed(kit.write(tmp_path))
    assert layer.files()[f"{SITE}/sample-1.0.dist-info/RECORD.jws"] == b"signed"
    assert "sample-1.0.dist-info/RECORD.jws,," in records(layer, kit)


def test_executables_keep_that_mode_and_others_get_the_plain_one(tmp_path: Path) -> None:
    modes = {"a.so": 0o100755, "b.so": 0o100700, "c.so": 0o100600, "d.so": 0o755, "e.so": 0, "f.so": 0o104777}
    modes = {f"sample/{name}": mode for name, mode in modes.items()}
    layer = installed(WheelKit(files=dict.fromkeys(modes, b"x"), modes=modes).write(tmp_path))
    found = {path.rpartition("/")[2]: mode for path, mode in layer.modes().items() if path.endswith(".so")}
    assert found == {"a.so": 0o755, "b.so": 0o755, "c.so": 0o644, "d.so": 0o644, "e.so": 0o644, "f.so": 0o755}


def test_each_data_scheme_has_its_place(tmp_path: Path) -> None:
    data = "sample-1.0.data"
    files = {
        f"{data}/purelib/pure.py": b"1",
        f"{data}/platlib/plat.py": b"2",
        f"{data}/headers/sub/x.h": b"3",
        f"{data}/data/share/man/man1/x.1": b"4",
        f"{data}/data/lib64/y": b"5",
        f"{data}/scripts/tool": b"#!/bin/sh\n",
    }
    found = installed(WheelKit(files=files).write(tmp_path)).files()
    assert {path for path in found if "dist-info" not in path} == {
        f"{SITE}/pure.py",
        f"{SITE}/plat.py",
        "opt/env/include/site/python3.13/sample/sub/x.h",
        "opt/env/share/man/man1/x.1",
        "opt/env/lib/y",
        "opt/env/bin/tool",
    }


def test_scripts_get_the_environments_interpreter_in_their_first_line(tmp_path: Path) -> None:
    scripts = {
        "a": b"#!python\nprint(1)\n",
        "b": b"#!pythonw -s\r\nprint(2)\n",
        "c": b"#!/usr/bin/env python\n",
        "d": b"#!python",
        "e": b"#!python\n" + TEXT,
    }
    kit = WheelKit(
        files={f"sample-1.0.data/scripts/{name}": text for name, text in scripts.items()},
        modes={f"sample-1.0.data/scripts/{name}": 0o100755 for name in scripts},
    )
    layer = installed(kit.write(tmp_path))
    files = {path.rpartition("/")[2]: data for path, data in layer.files().items()}
    first = b"#!/opt/env/bin/python\n"
    assert files["a"] == first + b"print(1)\n"
    assert files["b"] == first + b"print(2)\n"
    assert files["c"] == scripts["c"]
    assert files["d"] == first
    assert files["e"] == first + TEXT
    assert layer.modes()["opt/env/bin/a"] == 0o755
    assert ",".join(record_row("../../../bin/a", files["a"])) in records(layer, kit)


@pytest.mark.parametrize(
    "prefix", ["opt/env", "opt/with space/env", "opt/it's/env", "o" * 120, "x/" + "long/" * 30 + "env"]
)
def test_entry_points_become_the_scripts_that_installer_writes(tmp_path: Path, prefix: str) -> None:
    points = (
        "[console_scripts]\nrun = sample.cli:main\nother = sample:App.start [extra]\n[gui_scripts]\nwindow=sample:w"
    )
    layer = installed(WheelKit(entry_points=points).write(tmp_path), Scheme(prefix, "3.13"))
    for name, module, attribute in (
        ("run", "sample.cli", "main"),
        ("other", "sample", "App.start"),
        ("window", "sample", "w"),
    ):
        _, text = Script(name, module, attribute, "console").generate(f"/{prefix}/bin/python", "posix")
        only_for_windows = (b"# -*- coding", b"import re\n", b"    sys.argv[0] = ")
        lines = [line for line in text.splitlines(keepends=True) if not line.startswith(only_for_windows)]
        assert layer.files()[f"{prefix}/bin/{name}"] == b"".join(lines)
        assert layer.modes()[f"{prefix}/bin/{name}"] == 0o755


def test_scripts_that_only_wrap_an_entry_point_are_left_out(tmp_path: Path) -> None:
    names = ("run", "run-script.py", "run.exe", "runner")
    kit = WheelKit(
        files={f"sample-1.0.data/scripts/{name}": b"#!python\n" for name in names},
        entry_points="[console_scripts]\nrun = sample:main\n",
    )
    layer = installed(kit.write(tmp_path))
    assert sorted(path for path in layer.files() if path.startswith("opt/env/bin/")) == [
        "opt/env/bin/run",
        "opt/env/bin/runner",
    ]
    assert b"sample" in layer.files()["opt/env/bin/run"]


def test_stored_entries_are_encoded_by_us(tmp_path: Path) -> None:
    files = {"sample/__init__.py": TEXT * 100, "sample/empty.py": b""}
    layer = installed(WheelKit(files=files, stored=frozenset(files)).write(tmp_path))
    assert layer.files()[f"{SITE}/sample/__init__.py"] == TEXT * 100
    assert layer.blob.size < 60_000


def test_names_that_honest_wheels_hold_are_taken(tmp_path: Path) -> None:
    long = "/".join(["deep" * 20] * 12) + "/x.py"
    names = [
        "sample/with space.py",
        "sample/ünï.py",
        "sample/名.py",
        "Sample/A.py",
        "sample/a.py",
        "sample/...",
        long,
    ]
    layer = installed(WheelKit(files={name: name.encode() for name in names}).write(tmp_path))
    assert {layer.files()[f"{SITE}/{name}"] for name in names} == {name.encode() for name in names}


def test_directory_entries_and_data_descriptors_that_agree_are_taken(tmp_path: Path) -> None:
    kit = WheelKit()
    members = [Member(name="sample/", mode=0o040755, method=0), *kit.members()]
    for form in ("<III", "<4sIII", "<IQQ", "<4sIQQ"):
        honest = [streamed(member, form) for member in members]
        assert f"{SITE}/sample/__init__.py" in installed(kit.write(tmp_path, honest)).files()


def streamed(member: Member, form: str) -> Member:
    """The member as a program writes it that did not know its sizes beforehand."""

    numbers = (zlib.crc32(member.data), len(member.body), len(member.data))
    descriptor = struct.pack(form, *((b"PK\x07\x08", *numbers) if "4s" in form else numbers))
    return replace(member, flags=8, descriptor=descriptor, local={"crc32": 0, "compressed": 0, "size": 0})


def test_zip64_records_that_agree_are_taken(tmp_path: Path) -> None:

    kit = WheelKit()
    members = []
    for member in kit.members():
        sizes = struct.pack("<2H2Q", 1, 16, len(member.data), len(member.body))
        full: dict[str, int | bytes] = {"size": 0xFFFFFFFF, "compressed": 0xFFFFFFFF, "extra": sizes}
        members.append(replace(member, local=full, central=full))
    layer = installed(kit.install(tmp_path, zip_bytes(members, zip64=True)))
    assert f"{SITE}/sample/__init__.py" in layer.files()


def test_a_wheel_is_read_by_its_name_wherever_it_lies(tmp_path: Path) -> None:
    install = WheelKit(name="Some_Project", version="1.0.0").write(tmp_path)
    blob = install.path.rename(tmp_path / "0123abcd")
    stored = replace(install, path=blob, name="some-project", version="1.0")
    assert f"{SITE}/Some_Project-1.0.0.dist-info/RECORD" in installed(stored).files()
    with pytest.raises(FaultyInput, match=r"Some_Project-1\.0\.0-py3-none-any\.whl: is to be other 1\.0"):
        installed(replace(stored, name="other"))


@pytest.mark.parametrize(
    ("prefix", "python"), [("/opt", "3.13"), ("opt/", "3.13"), ("", "3.13"), ("a/../b", "3.13"), ("a", "3")]
)
def test_a_scheme_is_a_clean_prefix_and_an_x_y(prefix: str, python: str) -> None:
    with pytest.raises(ValueError, match="prefix"):
        Scheme(prefix, python)
