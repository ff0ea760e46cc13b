"""Images as an OCI layout: a folder, or a tar of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from envlock.digest import Digest
from envlock.image.canonical import canonical_json
from envlock.image.config import FinishedLayer
from envlock.image.destinations import is_image_tar, is_layout
from envlock.image.output import lay, replacing
from envlock.image.tar_files import TarFiles
from envlock.platforms import Platform

__all__ = ["Bundle", "Image", "write_layout", "write_layout_tar"]

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_REF_NAME = "org.opencontainers.image.ref.name"
_LAYOUT = canonical_json({"imageLayoutVersion": "1.0.0"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The image of one platform: its configuration and its layers, lowest first."""

    platform: Platform
    config: bytes
    layers: tuple[FinishedLayer, ...]

    @property
    def manifest(self) -> bytes:
        """The image manifest. Each layer's descriptor names its recipe's key, so that a later build can reuse it."""
        layers = [
            {
                "mediaType": _LAYER,
                "digest": str(layer.digest),
                "size": layer.size,
                "annotations": {"org.envlock.recipe": str(layer.recipe), "org.envlock.title": layer.title},
            }
            for layer in self.layers
        ]
        config = {"mediaType": _CONFIG, "digest": str(Digest.of(self.config)), "size": len(self.config)}
        return canonical_json({"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": layers})

    @property
    def digest(self) -> Digest:
        """The image's digest: of its manifest."""
        return Digest.of(self.manifest)

    @property
    def config_digest(self) -> Digest:
        """The configuration's digest, which Docker calls the image's id."""
        return Digest.of(self.config)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Images of one environment for one or more platforms, under one name; `blob` is where a layer's file is."""

    images: tuple[Image, ...]
    name: str
    blob: Callable[[Digest], Path]

    @property
    def digest(self) -> Digest:
        """What pulls the bundle: the only image's digest, else that of the index over all platforms."""
        return self.images[0].digest if len(self.images) == 1 else Digest.of(self._index())

    def small_blobs(self) -> dict[Digest, bytes]:
        """Everything but the layers."""
        blobs = {Digest.of(data): data for image in self.images for data in (image.config, image.manifest)}
        if len(self.images) > 1:
            blobs[Digest.of(self._index())] = self._index()
        return dict(sorted(blobs.items()))

    def layers(self) -> tuple[FinishedLayer, ...]:
        """The layers of all images, each once, by digest."""
        found = {layer.digest: layer for image in self.images for layer in image.layers}
        return tuple(found[digest] for digest in sorted(found))

    def index_json(self) -> bytes:
        """The layout's entry point: one named descriptor."""
        if len(self.images) == 1:
            top = self._descriptor(self.images[0])
        else:
            data = self._index()
            top = {"mediaType": _INDEX, "digest": str(Digest.of(data)), "size": len(data)}
        named = top | {"annotations": {_REF_NAME: self.name}}
        return canonical_json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [named]})

    def _index(self) -> bytes:
        manifests = [self._descriptor(image) for image in self.images]
        return canonical_json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": manifests})

    def _descriptor(self, image: Image) -> dict[str, object]:
        platform = {"os": "linux", "architecture": image.platform.architecture}
        if image.platform is Platform.ARM64:
            platform["variant"] = "v8"
        size = len(image.manifest)
        return {"mediaType": _MANIFEST, "digest": str(image.digest), "size": size, "platform": platform}


def write_layout(bundle: Bundle, folder: Path) -> None:
    """Write a layout folder; one that is there is replaced in one step, once the new one is complete."""
    with replacing(folder, is_layout) as part:
        blobs = part / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        for layer in bundle.layers():
            lay(bundle.blob(layer.digest), blobs / layer.digest.hex)
        for digest, data in bundle.small_blobs().items():
            (blobs / digest.hex).write_bytes(data)
        (part / "index.json").write_bytes(bundle.index_json())
        (part / "oci-layout").write_bytes(_LAYOUT)


def write_layout_tar(bundle: Bundle, file: Path) -> None:
    """Write a tar of a layout, which skopeo and podman call oci-archive. The same bundle gives the same bytes."""
    small = {f"blobs/sha256/{digest.hex}": data for digest, data in bundle.small_blobs().items()}
    files = small | {"index.json": bundle.index_json(), "oci-layout": _LAYOUT}
    with replacing(file, is_image_tar) as part, part.open("wb") as out, TarFiles(out) as tar:
        for name, data in sorted(files.items()):
            tar.add(name, data)
        for layer in bundle.layers():
            with bundle.blob(layer.digest).open("rb") as opened:
                tar.stream(f"blobs/sha256/{layer.digest.hex}", opened, layer.size)
