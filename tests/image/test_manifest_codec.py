"""The manifest as JSON: written once, read back, and held against its schema."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import jsonschema
import pytest
from image_world import contract, data_spec, lock_of, locked_deb, locked_wheel, spec_of

from envlock import manifest
from envlock.digest import Digest
from envlock.errors import FaultyInput
from envlock.image.config import FinishedLayer
from envlock.image.describe import describe
from envlock.image.layers.copied import CopiedFile, CopiedTree
from envlock.image.plan import plan_image
from envlock.lock.model import BuiltFrom, Concession
from envlock.manifest import Clash, Manifest
from envlock.platforms import Platform
from envlock.spec.model import AccessSpec, DataKind, ImageSpec, SourceSpec

SECRET_PLACE = Path("/home/someone/project")


def whole() -> Manifest:
    """A manifest in which every list has something."""
    git = BuiltFrom(python="3.13", url="https://host.example/r.git", commit="c" * 40)
    lock = lock_of(
        [
            locked_wheel("numpy", b"numpy"),
            locked_wheel("ours", b"ours", index="local", path="../wheels/ours.whl"),
            locked_wheel("trl", b"trl", index="built", built_from=git, requested=True),
        ],
        [locked_deb("libc6", b"libc6")],
        cuda="12.8",
    )
    gpu = replace(contract(cuda="12.8"), architectures_known=True, cubin=("8.0", "9.0"), ptx=("9.0",))
    lock = replace(
        lock,
        contracts=(gpu,),
        concessions=(Concession(package="torch", wanted="2.15.0", got="2.10.0", reason="the driver is older"),),
    )
    spec = spec_of(
        SECRET_PLACE,
        image=ImageSpec(user="trainer", cmd=("python",), workdir=PurePosixPath("/work")),
        data=tuple(data_spec(f"/{kind}", kind, **{f"{kind.name}_HOME": f"/{kind}"}) for kind in DataKind),
        access=AccessSpec(ssh=True, jupyter=True),
        sources=(
            SourceSpec(name="a/model", kind="model", licence="Apache-2.0", confirmed=True),
            SourceSpec(name="b/set", kind="dataset", licence="CC-BY-4.0"),
            SourceSpec(name="c/set", kind="dataset"),
        ),
    )
    tree = CopiedTree(
        root=SECRET_PLACE / "src",
        label="src",
        to=PurePosixPath("/work"),
        files=(CopiedFile(path="", mode=0o755), CopiedFile(path="a", mode=0o644, size=1, sha256=Digest.of(b"a"))),
        commit="d" * 40,
        dirty=True,
    )
    plan = plan_image(spec, lock, Platform.AMD64, copies=(tree,))
    layer = FinishedLayer(
        recipe=Digest.of(b"r"), title="one", digest=Digest.of(b"l"), size=1, diff_id=Digest.of(b"t"), unpacked=2
    )
    clash = Clash(path="/opt/env/x", kept="a 1", lost="b 1")
    return describe(plan, [layer], [clash], lock=Digest.of(b"lock"))


def values() -> dict[str, Any]:
    held = json.loads(manifest.dumps(whole()))
    assert isinstance(held, dict)
    return held


def test_what_is_written_is_read_back() -> None:
    text = manifest.dumps(whole())
    assert manifest.loads(text, "manifest") == whole()
    assert manifest.dumps(manifest.loads(text, "manifest")) == text


def test_it_fits_the_schema_which_is_one_itself() -> None:
    jsonschema.Draft202012Validator.check_schema(manifest.schema())
    jsonschema.Draft202012Validator(manifest.schema()).validate(values())


def test_the_schema_names_every_key_and_no_other() -> None:
    properties = manifest.schema()["properties"]
    assert list(properties) == list(values())
    for name in ("debs", "wheels", "copies", "data", "sources", "concessions", "clashes", "layers"):
        assert set(properties[name]["items"]["properties"]) == set(values()[name][0])


@pytest.mark.parametrize(
    ("key", "value"),
    [("version", 2), ("environment", 1), ("created", "today"), ("extra", 1), ("digests", {}), ("debs", [{}])],
)
def test_the_schema_refuses_what_is_wrong(key: str, value: object) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(manifest.schema()).validate(values() | {key: value})


def test_nothing_of_this_machine_is_in_it() -> None:
    text = manifest.dumps(whole())
    assert "/home/someone" not in text
    assert "../wheels" not in text


def test_each_data_directory_has_its_reason() -> None:
    reasons = {place.kind: place.reason for place in whole().data}
    assert set(reasons) == {str(kind) for kind in DataKind}
    assert all(reason.startswith("excluded by design: it is ") for reason in reasons.values())


def test_licences_are_confirmed_unconfirmed_or_unknown() -> None:
    assert [source.licence_status for source in whole().sources] == ["confirmed", "unconfirmed", "unknown"]


@pytest.mark.parametrize("version", [0, 2, "1", None, True])
def test_another_version_is_refused(version: object) -> None:
    with pytest.raises(FaultyInput, match="reads version 1") as fault:
        manifest.loads(json.dumps(values() | {"version": version}), "m.json")
    assert fault.value.code == "manifest-version"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"suite": None}, "suite is not text"),
        ({"platform": "linux/mips"}, "platform: 'linux/mips'"),
        ({"digests": {"lock": "x", "spec": "y"}}, "digests.lock: not a sha256 digest"),
        ({"wheels": [{}]}, "wheels[0].name is missing"),
        ({"wheels": {}}, "wheels is not a list"),
        ({"debs": [1]}, "debs[0] is not an object"),
        ({"mood": "good"}, "mood is not a key of this version"),
        ({"settings": {}}, "settings.env is missing"),
        ({"python": None}, "python is not an object"),
    ],
)
def test_faults_name_the_key(change: dict[str, object], told: str) -> None:
    with pytest.raises(FaultyInput) as fault:
        manifest.loads(json.dumps(values() | change), "m.json")
    assert (fault.value.code, told in fault.value.message) == ("manifest-faulty", True), fault.value.message


def test_numbers_and_switches_are_not_mixed_up() -> None:
    held = values()
    held["data"][0]["min_free"] = True
    with pytest.raises(FaultyInput, match=r"data\[0\]\.min_free is not int"):
        manifest.loads(json.dumps(held), "m.json")
    held["data"][0] = held["data"][0] | {"min_free": 1, "env": {"A": 1}}
    with pytest.raises(FaultyInput, match=r"data\[0\]\.env\.A is not text"):
        manifest.loads(json.dumps(held), "m.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", "null"])
def test_what_is_no_manifest_is_told(text: str) -> None:
    with pytest.raises(FaultyInput) as fault:
        manifest.loads(text, "m.json")
    assert fault.value.code == "manifest-faulty"
