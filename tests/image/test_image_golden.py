"""What recipes of each kind make, to the byte: a layer's key promises that it never changes.

When one of these digests changes on purpose, raise the kind's number in `_REVISIONS` of envlock/image/recipes.py, or
FORMAT_VERSION where the writing of all layers changed. Stores and registries hold layers under the old keys.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from image_world import deb_bytes, locked_deb, locked_wheel, wheel_bytes

from envlock.digest import Digest
from envlock.fetch.store import Store
from envlock.image.layer_job import LayerJob, build_layer
from envlock.image.layers.debian import User
from envlock.image.layers.entries import Directory, File, Symlink
from envlock.image.layers.files import read_copy
from envlock.image.recipes import (
    BaseRecipe,
    CopyRecipe,
    DebianRecipe,
    FilesRecipe,
    Recipe,
    VenvRecipe,
    WheelsRecipe,
)
from envlock.image.user import image_user
from envlock.spec.model import CopySpec

OPT = (Directory(path="opt"),)


def stored(data: bytes) -> bytes:
    """The wheel without compression, which differs between builds of zlib."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as target:
        for info in source.infolist():
            target.writestr(zipfile.ZipInfo(info.filename), source.read(info))
    return out.getvalue()


def recipes(folder: Path, wheel: bytes, deb: bytes) -> dict[str, Recipe]:
    code = folder / "code"
    (code / "pkg").mkdir(parents=True)
    (code / "pkg" / "a.py").write_text("print()\n")
    user = image_user("trainer")
    tree = read_copy(CopySpec(source=code, to=PurePosixPath("/work")), folder, {})
    debs = (locked_deb("base-files", deb),)
    return {
        "debian": DebianRecipe(title="", debs=debs),
        "base": BaseRecipe(debs=debs, users=(User(name="trainer", uid=1000),)),
        "venv": VenvRecipe(prefix="opt/env", parents=OPT, python="3.13", python_full="3.13.5"),
        "wheels": WheelsRecipe(
            title="",
            wheels=(locked_wheel("alpha", wheel, requested=True),),
            direct_urls=(),
            prefix="opt/env",
            parents=OPT,
            python="3.13",
            bytecode=None,
        ),
        "copy": CopyRecipe(trees=(tree,), user=user, own=("work",)),
        "files": FilesRecipe(
            entries=(Directory(path="a"), File(path="a/b", body=b"c"), Symlink(path="d", target="a"))
        ),
    }


@pytest.mark.parametrize(
    ("kind", "digest"),
    [
        ("debian", "59176b9dff9c9ec4d06695959c60a3dbaf96264097fefaafe7dc3efe706ac7fb"),
        ("base", "02982f31c2de13a48e619cdb1a28ede01005b6f50bab793fb5e102ed181e57b4"),
        ("venv", "b9001c4a11cc757c29d975b3feeb5966bc6502a333d9bdc43619ab744c85679a"),
        ("wheels", "24da63b76fbdaf4c71a0283b9b7615aaf8fea28e83ec90c340730176f4f6f35b"),
        ("copy", "b5ae580ff3281cf28f90ef965085bae67a50bda6e1d3c442983c724947b20078"),
        ("files", "246671e4ab45604511f25796b3e2cd62b25d0d8a926735bdb77414c5c4954217"),
    ],
)
def test_the_same_recipe_makes_the_same_layer_in_every_version(tmp_path: Path, kind: str, digest: str) -> None:
    wheel, deb = stored(wheel_bytes("alpha")), deb_bytes("base-files")
    store = Store(tmp_path / "store")
    files = tuple((Digest.of(data), store.path(store.put(data))) for data in (wheel, deb))
    recipe = recipes(tmp_path, wheel, deb)[kind]
    layer, _ = build_layer(LayerJob(recipe=recipe, store=store.root, files=files), lambda: False)
    assert layer.blob.digest.hex == digest
