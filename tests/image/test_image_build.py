"""From a lock to an image on disk, with workers, through the real writers of layers."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from pathlib import Path, PurePosixPath

import jsonschema
import pytest
from image_world import FULL, PYTHON, World, data_spec, deb_bytes, flip, locked_wheel, spec_of, wheel_bytes

from envlock import manifest
from envlock.digest import Digest
from envlock.errors import Difference, FaultyInput, MachineLacks, Unsatisfiable
from envlock.image.built import BuiltImage
from envlock.image.layers import bytecode_program
from envlock.platforms import Platform
from envlock.spec.model import CopySpec, ImageSpec, TargetSpec

SITE = f"opt/env/lib/python{PYTHON}/site-packages"


def blob(built: BuiltImage, digest: Digest) -> Path:
    return built.layout / "blobs" / "sha256" / digest.hex


def contents(built: BuiltImage) -> dict[str, bytes]:
    """Files of the image, as an engine lays its layers."""
    found: dict[str, bytes] = {}
    for layer in built.platforms[0].layers:
        with tarfile.open(blob(built, layer.digest)) as tar:
            for member in tar:
                opened = tar.extractfile(member) if member.isfile() else None
                found[member.name] = opened.read() if opened else b""
    return found


def test_an_image_holds_base_wheels_and_manifest(tmp_path: Path) -> None:
    world = World(tmp_path)
    spec = spec_of(tmp_path, data=(data_spec("/data/models", HF_HOME="/data/models/hf"),))
    built = world.build(spec)
    files = contents(built)
    assert files[f"{SITE}/alpha/__init__.py"] == b"NAME = 'alpha'\n"
    assert files["usr/share/base-files/text"] == b"base-files"
    assert files["data/models"] == b""
    text = built.platforms[0].manifest.read_text()
    assert files["etc/envlock/manifest.json"].decode() == text
    held = manifest.loads(text, "manifest")
    assert [place.path for place in held.data] == ["/data/models"]
    assert held.data[0].reason.startswith("excluded by design: ")
    assert Digest.of(files["etc/envlock/lock"]) == held.digests.lock
    assert [row.diff_id for row in held.layers] == [
        Digest.parse(text) for text in config_of(built)["rootfs"]["diff_ids"][:-1]
    ]
    jsonschema.Draft202012Validator(manifest.schema()).validate(json.loads(text))


def config_of(built: BuiltImage) -> dict[str, dict[str, list[str]]]:
    values = json.loads(blob(built, built.platforms[0].config_digest).read_bytes())
    assert isinstance(values, dict)
    return values


def test_the_same_lock_gives_the_same_digest_with_any_workers_and_from_an_empty_store(tmp_path: Path) -> None:
    first, second = World(tmp_path / "one", python=True), World(tmp_path / "two", python=True)
    built = first.build(workers=1)
    again = first.build()
    other = second.build(workers=2)
    assert built.digest == again.digest == other.digest
    assert not any(layer.reused for layer in (*built.platforms[0].layers, *other.platforms[0].layers))
    assert all(layer.reused for layer in again.platforms[0].layers)
    assert (again.bytes_downloaded, first.fetcher.fetched) == (0, other_labels(second))


def other_labels(world: World) -> list[str]:
    return world.fetcher.fetched


def test_a_cached_layer_needs_no_artefact(tmp_path: Path) -> None:
    world = World(tmp_path, python=True)
    world.build()
    changed = wheel_bytes("beta", "2.0")
    world.fetcher.served[Digest.of(changed)] = changed
    lock = world.lock()
    bumped = replace(lock, wheels=(lock.wheels[0], locked_wheel("beta", changed, "2.0")))
    world.fetcher.fetched.clear()
    for path in (world.folder / "store" / "blobs").rglob("*"):
        if path.is_file() and path.read_bytes() in world.debs.values():
            path.unlink()
    built = world.build(lock=bumped)
    assert world.fetcher.fetched == ["beta-2.0-py3-none-any.whl"]
    assert [layer.title for layer in built.platforms[0].layers if not layer.reused] == [
        "small wheels, 1 of 1",
        "mount points, settings, manifest and lock",
    ]


def test_a_layer_that_was_changed_in_the_store_never_reaches_an_image(tmp_path: Path) -> None:
    world = World(tmp_path)
    first = world.build()
    for layer in first.platforms[0].layers:
        flip(world.store.path(layer.digest))
    again = world.build()
    assert again.digest == first.digest
    assert not any(layer.reused for layer in again.platforms[0].layers)
    assert all(Digest.of_file(blob(again, layer.digest)) == layer.digest for layer in again.platforms[0].layers)


@pytest.mark.parametrize("kind", ["wheels", "debs"])
def test_an_artefact_that_was_changed_in_the_store_is_removed_and_fetched_again(tmp_path: Path, kind: str) -> None:
    world = World(tmp_path)
    data = next(iter(getattr(world, kind).values()))
    path = world.store.path(world.store.put(data))
    flip(path)
    with pytest.raises(MachineLacks) as damaged:
        world.build()
    assert damaged.value.code == "store-damaged"
    assert not path.exists()
    assert world.build().digest == World(tmp_path / "other").build().digest


def test_modules_have_bytecode_of_the_locked_python(tmp_path: Path) -> None:
    world = World(tmp_path, python=True)
    built = world.build()
    tag = f"cpython-{PYTHON.replace('.', '')}"
    files = contents(built)
    assert f"{SITE}/alpha/__pycache__/__init__.{tag}.pyc" in files
    assert f"usr/lib/python{PYTHON}/__pycache__/textwrap.{tag}.pyc" in files
    assert built.platforms[0].bytecode == FULL
    assert bytecode_program.__name__  # the program that compiled is part of the package


def test_an_image_without_a_python_to_run_says_so_and_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    built = world.build()
    assert built.platforms[0].bytecode is None
    assert any("no bytecode" in line for line in world.talk.lines)
    assert not any(path.endswith(".pyc") for path in contents(built))


def test_a_python_of_another_version_than_the_locked_one_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path, python=True)
    lock = world.lock()
    with pytest.raises(MachineLacks) as fault:
        world.build(lock=replace(lock, base=replace(lock.base, python=f"{PYTHON}.99")))
    assert fault.value.code == "interpreter-differs"


def test_paths_that_two_wheels_write_are_told_and_the_later_one_stands(tmp_path: Path) -> None:
    files = {"shared/same.py": b"same = 1\n", "tests/conftest.py": b"a = 1\n"}
    other = files | {"tests/conftest.py": b"b = 2\n"}
    world = World(
        tmp_path, wheels={"alpha": wheel_bytes("alpha", files=files), "beta": wheel_bytes("beta", files=other)}
    )
    built = world.build()
    assert contents(built)[f"{SITE}/tests/conftest.py"] == b"b = 2\n"
    assert [(row.path, row.kept, row.lost, row.same) for row in built.platforms[0].overwritten] == [
        (f"{SITE}/shared/same.py", "beta 1.0", "alpha 1.0", True),
        (f"{SITE}/tests/conftest.py", "beta 1.0", "alpha 1.0", False),
    ]
    clashes = manifest.loads(built.platforms[0].manifest.read_text(), "manifest").clashes
    assert [(clash.path, clash.kept) for clash in clashes] == [(f"/{SITE}/tests/conftest.py", "beta 1.0")]
    assert any("beta 1.0 overwrites 1 files of alpha 1.0" in line for line in world.talk.lines)
    assert [row.path for row in world.build().platforms[0].overwritten] == [
        row.path for row in built.platforms[0].overwritten
    ]


def test_a_file_where_another_wheel_has_a_directory_is_refused(tmp_path: Path) -> None:
    one, other = wheel_bytes("alpha", files={"x": b"file"}), wheel_bytes("beta", files={"x/y.py": b""})
    with pytest.raises(FaultyInput, match="is a directory in one and a file in the other") as fault:
        World(tmp_path, wheels={"alpha": one, "beta": other}).build()
    assert fault.value.code == "path-clash"


def test_a_file_planted_in_a_data_directory_fails_the_build_and_nothing_is_written(tmp_path: Path) -> None:
    debs = {"evil": deb_bytes("evil", files={"data/models/weights.bin": b"1"})}
    world = World(tmp_path, debs=debs)
    with pytest.raises(Difference, match=r"/data/models/weights.bin \(evil 1.0\)") as fault:
        world.build(spec_of(tmp_path, data=(data_spec("/data/models"),)))
    assert fault.value.code == "data-in-image"
    assert not (tmp_path / "out").exists()


def test_a_stale_lock_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    world = World(tmp_path)
    with pytest.raises(Difference, match="changed since the lock of") as fault:
        world.build(spec_of(tmp_path, digest=Digest.of(b"changed")))
    assert (fault.value.code, fault.value.status, world.fetcher.fetched) == ("stale-lock", 1, [])


def test_a_target_that_cannot_run_the_lock_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    world = World(tmp_path)
    with pytest.raises(Unsatisfiable) as fault:
        world.build(spec_of(tmp_path, target=TargetSpec(cuda="cpu")), world.lock(cuda="12.8"))
    assert (fault.value.code, world.fetcher.fetched) == ("contract-not-met", [])


def test_local_and_built_wheels_come_from_where_they_are(tmp_path: Path) -> None:
    ours, mine = wheel_bytes("ours"), wheel_bytes("mine")
    world = World(tmp_path, wheels={})
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "ours-1.0-py3-none-any.whl").write_bytes(ours)
    world.origin.rebuilt["mine"] = mine
    lock = replace(
        world.lock(),
        wheels=(
            locked_wheel("mine", mine, index="built"),
            locked_wheel("ours", ours, index="local", path="wheels/ours-1.0-py3-none-any.whl"),
        ),
    )
    files = contents(world.build(lock=lock))
    assert files[f"{SITE}/ours/__init__.py"] == b"NAME = 'ours'\n"
    assert files[f"{SITE}/mine/__init__.py"] == b"NAME = 'mine'\n"
    assert world.origin.asked == ["mine"]


def test_a_rebuilt_wheel_with_other_bytes_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path, wheels={})
    world.origin.rebuilt["mine"] = wheel_bytes("mine", files={"mine.py": b"other = 1\n"})
    lock = replace(world.lock(), wheels=(locked_wheel("mine", wheel_bytes("mine"), index="built"),))
    with pytest.raises(FaultyInput) as fault:
        world.build(lock=lock)
    assert fault.value.code == "hash-mismatch"


def test_a_local_wheel_that_is_gone_or_changed_is_told(tmp_path: Path) -> None:
    world = World(tmp_path, wheels={})
    wheel = locked_wheel("ours", wheel_bytes("ours"), index="local", path="ours-1.0-py3-none-any.whl")
    lock = replace(world.lock(), wheels=(wheel,))
    with pytest.raises(FaultyInput) as fault:
        world.build(lock=lock)
    assert fault.value.code == "wheel-missing"
    (tmp_path / "ours-1.0-py3-none-any.whl").write_bytes(b"other")
    with pytest.raises(FaultyInput) as fault:
        world.build(lock=lock)
    assert fault.value.code == "hash-mismatch"


def test_a_faulty_wheel_fails_the_build_by_its_name(tmp_path: Path) -> None:
    world = World(tmp_path, wheels={"alpha": b"no zip at all", "beta": wheel_bytes("beta")})
    with pytest.raises(FaultyInput, match=r"alpha-1\.0-py3-none-any\.whl"):
        world.build(workers=2)
    assert not (tmp_path / "out").exists()


def test_the_users_code_is_in_the_image_and_belongs_to_the_user(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print('training')\n")
    copy = CopySpec(source=code, to=PurePosixPath("/workspace"))
    image = ImageSpec(user="trainer", workdir=PurePosixPath("/workspace/run"), copy=(copy,))
    built = World(tmp_path / "world").build(spec_of(tmp_path, image=image))
    files = contents(built)
    assert files["workspace/train.py"] == b"print('training')\n"
    owners: dict[str, tuple[int, int]] = {}
    for layer in built.platforms[0].layers:
        with tarfile.open(blob(built, layer.digest)) as tar:
            owners |= {member.name: (member.uid, member.mode) for member in tar}
    assert owners["workspace/train.py"] == (1000, 0o644)
    assert owners["workspace"] == owners["workspace/run"] == owners["home/trainer"] == (1000, 0o755)
    copies = manifest.loads(built.platforms[0].manifest.read_text(), "manifest").copies
    assert [(copy.source, copy.to, copy.files) for copy in copies] == [("code", "/workspace", 1)]


def test_a_home_that_holds_the_prefix_or_a_data_directory_keeps_its_owner(tmp_path: Path) -> None:
    image = ImageSpec(user="trainer", prefix=PurePosixPath("/home/trainer/env"))
    spec = spec_of(tmp_path, image=image, data=(data_spec("/home/trainer/data"),))
    assert World(tmp_path).build(spec).platforms[0].checked


def test_two_platforms_become_one_index_that_shares_layers(tmp_path: Path) -> None:
    world = World(tmp_path)
    both = (Platform.AMD64, Platform.ARM64)
    lock = world.lock()
    lock = replace(
        lock,
        platforms=both,
        wheels=tuple(replace(wheel, platforms=both) for wheel in lock.wheels),
        base=replace(lock.base, debs=tuple(replace(deb, platforms=both) for deb in lock.base.debs)),
        contracts=tuple(replace(lock.contracts[0], platform=platform) for platform in both),
    )
    built = world.build(spec_of(tmp_path, platforms=both), lock)
    index = json.loads((built.layout / "index.json").read_bytes())
    assert [entry["mediaType"] for entry in index["manifests"]] == ["application/vnd.oci.image.index.v1+json"]
    assert index["manifests"][0]["digest"] == str(built.digest)
    inner = json.loads(blob(built, built.digest).read_bytes())
    assert [entry["platform"]["architecture"] for entry in inner["manifests"]] == ["amd64", "arm64"]
    shared = [{layer.digest for layer in platform.layers if "wheels" in layer.title} for platform in built.platforms]
    assert shared[0] == shared[1]
    assert [platform.manifest.name for platform in built.platforms] == ["manifest.amd64.json", "manifest.arm64.json"]
    assert isinstance(built.to_json()["platforms"], list)


def test_the_result_as_json_names_layers_bytes_and_seconds(tmp_path: Path) -> None:
    values = World(tmp_path).build().to_json()
    assert json.loads(json.dumps(values)) == values
    assert {"digest", "config_digest", "bytes_downloaded", "manifest", "seconds", "layers"} <= values.keys()
    layers = values["layers"]
    assert isinstance(layers, list)
    assert {"digest", "size", "recipe", "reused"} <= layers[0].keys()


def test_layers_carry_their_recipes_key(tmp_path: Path) -> None:
    built = World(tmp_path).build()
    image = json.loads(blob(built, built.digest).read_bytes())
    assert [layer["annotations"]["org.envlock.recipe"] for layer in image["layers"]] == [
        str(layer.recipe) for layer in built.platforms[0].layers
    ]
