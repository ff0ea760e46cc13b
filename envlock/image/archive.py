"""Images for `docker load`: the archive that every Docker reads, and an OCI layout at once."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from isal import igzip

from envlock.errors import FaultyInput
from envlock.image.canonical import canonical_json
from envlock.image.layout import Bundle, Image, write_layout_members
from envlock.image.output import replacing
from envlock.image.tar_files import TarFiles

__all__ = ["write_docker_archive"]


def write_docker_archive(bundle: Bundle, file: Path, *, tag: str, compression: str) -> None:
    """Write a docker-archive of the bundle's only image; the same image gives the same bytes.

    With "gzip" the layers are those of the layout, byte for byte, and the archive is an OCI layout, too: engines
    that know layouts load the image under its own digest. With "none" they are plain tars. Raise FaultyInput (code
    "archive-one-platform") for a bundle of several platforms.
    """
    if len(bundle.images) != 1:
        raise FaultyInput(
            "a docker-archive holds one platform, and the image has several",
            hint="Build one platform, with --platform.",
            code="archive-one-platform",
        )
    image = bundle.images[0]
    with replacing(file, Path.is_file) as part, part.open("wb") as out:
        if compression == "gzip":
            write_layout_members(bundle, out, extra={"manifest.json": _manifest(image, tag, plain=False)})
        else:
            _write_plain(bundle, image, out, tag)


def _manifest(image: Image, tag: str, *, plain: bool) -> bytes:
    layers = [f"blobs/sha256/{(layer.diff_id if plain else layer.digest).hex}" for layer in image.layers]
    config = f"blobs/sha256/{image.config_digest.hex}"
    return canonical_json([{"Config": config, "RepoTags": [tag], "Layers": layers}])


def _write_plain(bundle: Bundle, image: Image, out: BinaryIO, tag: str) -> None:
    with TarFiles(out) as tar:
        tar.add(f"blobs/sha256/{image.config_digest.hex}", image.config)
        tar.add("manifest.json", _manifest(image, tag, plain=True))
        for layer in sorted({layer.diff_id: layer for layer in image.layers}.values(), key=lambda each: each.diff_id):
            with igzip.open(bundle.blob(layer.digest), "rb") as opened:  # type: ignore[no-untyped-call] # as isal has it
                tar.stream(f"blobs/sha256/{layer.diff_id.hex}", opened, layer.unpacked)
