"""Images for `docker load`: the archive that every Docker reads."""

from __future__ import annotations

from pathlib import Path

from isal import igzip

from envlock.image.canonical import canonical_json
from envlock.image.config import FinishedLayer
from envlock.image.destinations import is_image_tar
from envlock.image.layout import Bundle
from envlock.image.output import replacing
from envlock.image.tar_files import TarFiles

__all__ = ["write_docker_archive"]


def write_docker_archive(bundle: Bundle, file: Path, *, tag: str, compression: str) -> None:
    """Write a docker-archive of the bundle's only image; the same image gives the same bytes.

    With "gzip" the layers are those of the layout, byte for byte; with "none" they are plain tars. Unlike Docker's
    own archives it is no OCI layout at the same time: podman prefers the layout, and would lose the tag. Raise
    ValueError for a bundle of several platforms, which `Outputs.judge` refuses first.
    """
    (image,) = bundle.images
    plain = compression == "none"
    names = [_name(layer, plain=plain) for layer in image.layers]
    config = f"{image.config_digest.hex}.json"
    listed = canonical_json([{"Config": config, "RepoTags": [tag], "Layers": names}])
    with replacing(file, is_image_tar) as part, part.open("wb") as out, TarFiles(out) as tar:
        tar.add("manifest.json", listed)
        tar.add(config, image.config)
        for name, layer in sorted(dict(zip(names, image.layers, strict=True)).items()):
            _add(tar, name, layer, bundle.blob(layer.digest), plain=plain)


def _name(layer: FinishedLayer, *, plain: bool) -> str:
    return f"{layer.diff_id.hex}.tar" if plain else f"{layer.digest.hex}.tar.gz"


def _add(tar: TarFiles, name: str, layer: FinishedLayer, blob: Path, *, plain: bool) -> None:
    if not plain:
        with blob.open("rb") as opened:
            tar.stream(name, opened, layer.size)
        return
    with igzip.open(blob, "rb") as opened:  # type: ignore[no-untyped-call] # isal's own types leave it out
        tar.stream(name, opened, layer.unpacked)
