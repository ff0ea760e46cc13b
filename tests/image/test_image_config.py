"""Variables, configuration and the last layer's files."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from image_world import contract, data_spec, lock_of, spec_of

from envlock.digest import Digest
from envlock.image.config import FinishedLayer, image_config
from envlock.image.environment import cuda_requirement, image_environment
from envlock.image.layers.copied import CopiedFile, CopiedTree
from envlock.image.layers.entries import Directory, Entry, File
from envlock.image.plan import ImagePlan, plan_image
from envlock.image.settings import files_recipe
from envlock.platforms import Platform
from envlock.spec.model import AccessSpec, DataKind, EnvSpec, ImageSpec

FOLDER = Path("/spec")
LOCK = Digest.of(b"lock")


def plan(spec: EnvSpec | None = None, *, cuda: str | None = None, copies: tuple[CopiedTree, ...] = ()) -> ImagePlan:
    return plan_image(spec or spec_of(FOLDER), lock_of(cuda=cuda), Platform.AMD64, copies=copies)


def config(spec: EnvSpec | None = None, *, cuda: str | None = None) -> dict[str, Any]:
    layer = FinishedLayer(recipe=LOCK, title="one", digest=LOCK, size=1, diff_id=Digest.of(b"tar"), unpacked=2)
    values = json.loads(image_config(plan(spec, cuda=cuda), [layer, layer], lock=LOCK))
    assert isinstance(values, dict)
    return values


def entries(spec: EnvSpec, copies: tuple[CopiedTree, ...] = ()) -> dict[str, Entry]:
    recipe = files_recipe(plan(spec, copies=copies), manifest="{}", lock="lock")
    return {entry.path: entry for entry in recipe.entries}


def text(entry: Entry) -> str:
    assert isinstance(entry, File)
    assert isinstance(entry.body, bytes)
    return entry.body.decode()


@pytest.mark.parametrize(
    ("cuda", "required"), [("12.8", "cuda>=12.0"), ("13.2", "cuda>=13.0"), ("11.8", "cuda>=11.0"), (None, None)]
)
def test_every_driver_of_the_major_version_is_let_in(cuda: str | None, required: str | None) -> None:
    assert cuda_requirement(contract(cuda=cuda)) == required


def test_path_comes_first_and_the_rest_sorted() -> None:
    found = image_environment(spec_of(FOLDER), contract(cuda="12.8"))
    assert list(found) == [
        "PATH",
        "LANG",
        "NVIDIA_DRIVER_CAPABILITIES",
        "NVIDIA_REQUIRE_CUDA",
        "NVIDIA_VISIBLE_DEVICES",
        "VIRTUAL_ENV",
    ]
    assert found["PATH"].startswith("/opt/env/bin:/usr/local/sbin:")


def test_an_image_without_cuda_asks_for_no_gpu() -> None:
    assert not any(name.startswith("NVIDIA") for name in image_environment(spec_of(FOLDER), contract()))


def test_caches_go_to_the_directory_that_suits_them_unless_the_spec_says_where() -> None:
    spec = spec_of(
        FOLDER,
        data=(
            data_spec("/net", DataKind.NETWORK),
            data_spec("/disk", HF_HOME="/disk/models"),
            data_spec("/cache", DataKind.CACHE),
        ),
        image=ImageSpec(env={"TORCH_HOME": "/elsewhere", "PATH": "/mine"}),
    )
    found = image_environment(spec, contract())
    assert found["HF_HOME"] == "/disk/models"
    assert found["XDG_CACHE_HOME"] == "/cache/cache"
    assert found["TRITON_CACHE_DIR"] == "/cache/triton"
    assert (found["TORCH_HOME"], found["PATH"]) == ("/elsewhere", "/mine")


def test_no_cache_goes_to_a_network_or_public_disk_by_itself() -> None:
    spec = spec_of(FOLDER, data=(data_spec("/net", DataKind.NETWORK), data_spec("/public", DataKind.PUBLIC)))
    assert "XDG_CACHE_HOME" not in image_environment(spec, contract())


def test_the_configuration_of_a_plain_image() -> None:
    values = config()
    assert (values["architecture"], values["os"], values["created"]) == ("amd64", "linux", "2000-01-01T00:00:00Z")
    assert values["config"]["Cmd"] == ["/bin/bash"]
    assert values["config"].keys() == {"Env", "Labels", "Cmd"}
    assert len(values["rootfs"]["diff_ids"]) == len(values["history"]) == 2
    assert values["history"][0]["comment"] == f"org.envlock.recipe={LOCK}"


def test_the_users_choices_are_in_the_configuration() -> None:
    image = ImageSpec(
        user="trainer",
        workdir=PurePosixPath("/work"),
        entrypoint=("python",),
        cmd=("train.py",),
        labels={"org.opencontainers.image.title": "ours", "org.envlock.lock": "forged"},
    )
    values = config(spec_of(FOLDER, image=image))["config"]
    assert (values["User"], values["WorkingDir"]) == ("1000", "/work")
    assert (values["Entrypoint"], values["Cmd"]) == (["python"], ["train.py"])
    assert values["Labels"]["org.opencontainers.image.title"] == "ours"
    assert values["Labels"]["org.envlock.lock"] == str(LOCK)


def test_labels_tell_contract_and_excluded_directories() -> None:
    labels = config(spec_of(FOLDER, data=(data_spec("/data"),)), cuda="12.8")["config"]["Labels"]
    assert json.loads(labels["org.envlock.contract"])["driver"] == "525.60.13"
    assert json.loads(labels["org.envlock.data.excluded"]) == ["/data"]
    assert labels["org.envlock.manifest"] == "/etc/envlock/manifest.json"


@pytest.mark.parametrize(("user", "ports"), [(None, ["22/tcp", "8888/tcp"]), ("trainer", ["2222/tcp", "8888/tcp"])])
def test_access_sets_entry_point_and_ports(user: str | None, ports: list[str]) -> None:
    spec = spec_of(FOLDER, access=AccessSpec(ssh=True, jupyter=True), image=ImageSpec(user=user))
    values = config(spec)["config"]
    assert values["Entrypoint"] == ["/usr/local/bin/envlock-entrypoint"]
    assert "Cmd" not in values
    assert sorted(values["ExposedPorts"]) == ports


def test_an_entry_point_of_the_users_own_stands() -> None:
    spec = spec_of(FOLDER, access=AccessSpec(ssh=True), image=ImageSpec(entrypoint=("mine",)))
    assert config(spec)["config"]["Entrypoint"] == ["mine"]


def test_the_last_layer_holds_mount_points_of_the_user() -> None:
    spec = spec_of(FOLDER, data=(data_spec("/root/data"), data_spec("/data/a")), image=ImageSpec(user="trainer"))
    made = entries(spec)
    assert made["data"] == Directory(path="data")
    assert made["data/a"] == Directory(path="data/a", uid=1000, gid=1000)
    assert made["root"] == Directory(path="root", mode=0o700)
    assert entries(replace(spec, data=(data_spec("/mnt"),)))["mnt"] == Directory(path="mnt")  # the base has it
    assert list(made) == sorted(made)


@pytest.mark.parametrize("workdir", ["/data/a/run", "/opt/env", "/usr/src", "/root", "/home/trainer"])
def test_no_working_directory_is_made_where_there_is_one_or_none_may_be(workdir: str) -> None:
    image = ImageSpec(user="trainer", workdir=PurePosixPath(workdir))
    assert workdir.strip("/") not in entries(spec_of(FOLDER, image=image, data=(data_spec("/data/a"),))).keys() - {
        "root",
        "usr",
    }


def test_what_leads_to_a_mount_point_in_the_users_code_stays_the_users() -> None:
    tree = CopiedTree(root=FOLDER, label="src", to=PurePosixPath("/work"), files=(CopiedFile(path="", mode=0o755),))
    spec = spec_of(FOLDER, image=ImageSpec(user="trainer"), data=(data_spec("/work/data"),))
    assert entries(spec, (tree,))["work"] == Directory(path="work", uid=1000, gid=1000)


def test_login_shells_get_the_variables_and_what_is_set_stands(tmp_path: Path) -> None:
    image = ImageSpec(env={"GREETING": "it's $HOME"})
    script = tmp_path / "envlock.sh"
    script.write_text(text(entries(spec_of(FOLDER, image=image))["etc/profile.d/envlock.sh"]))
    command = f'. {script}; . {script}; printf "%s\\n" "$PATH" "$GREETING" "$LANG"'
    told = subprocess.run(
        ["/bin/sh", "-c", command], env={"PATH": "/bin", "LANG": "C"}, capture_output=True, text=True, check=True
    )
    assert told.stdout.splitlines() == ["/opt/env/bin:/bin", "it's $HOME", "C"]


def test_sshd_takes_keys_only_and_passes_the_variables_on() -> None:
    spec = spec_of(FOLDER, access=AccessSpec(ssh=True), image=ImageSpec(env={"SAYING": 'a "b" \\c'}))
    made = entries(spec)
    lines = text(made["etc/ssh/sshd_config.d/envlock.conf"]).splitlines()
    assert "PasswordAuthentication no" in lines
    assert "KbdInteractiveAuthentication no" in lines
    assert lines[-1].startswith('SetEnv "PATH=/opt/env/bin:')
    assert '"SAYING=a \\"b\\" \\\\c"' in lines[-1]
    assert text(made["etc/envlock/access"]) == "ssh\n"
    assert "etc/ssh/sshd_config.d/envlock.conf" not in entries(replace(spec, access=AccessSpec(jupyter=True)))
    assert "usr/local/bin/envlock-entrypoint" not in entries(replace(spec, access=AccessSpec()))
