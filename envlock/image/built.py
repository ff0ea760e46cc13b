"""What a build made: for people, and as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envlock.digest import Digest
from envlock.image.layer_cache import Overwritten
from envlock.platforms import Platform

__all__ = ["BuiltImage", "BuiltLayer", "BuiltPlatform"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltLayer:
    """A layer of the image; `reused` says that it was there before this build, and `unpacked` how big it gets."""

    title: str
    recipe: Digest
    digest: Digest
    size: int
    unpacked: int
    reused: bool

    def to_json(self) -> dict[str, object]:
        """As plain values."""
        return {
            "title": self.title,
            "digest": str(self.digest),
            "size": self.size,
            "unpacked": self.unpacked,
            "recipe": str(self.recipe),
            "reused": self.reused,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltPlatform:
    """The image of one platform. `checked` is the number of paths that were proved to be where they should."""

    platform: Platform
    digest: Digest
    config_digest: Digest
    layers: tuple[BuiltLayer, ...]
    manifest: Path
    checked: int
    overwritten: tuple[Overwritten, ...]
    bytecode: str | None

    def to_json(self) -> dict[str, object]:
        """As plain values."""
        return {
            "platform": str(self.platform),
            "digest": str(self.digest),
            "config_digest": str(self.config_digest),
            "layers": [layer.to_json() for layer in self.layers],
            "manifest": str(self.manifest),
            "paths_checked": self.checked,
            "overwritten": [
                {"path": f"/{row.path}", "kept": row.kept, "lost": row.lost, "same": row.same}
                for row in self.overwritten
            ],
            "bytecode": self.bytecode,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltImage:
    """A whole build. `digest` is the image's, or the index's over all platforms; `seconds` are by stage."""

    name: str
    digest: Digest
    platforms: tuple[BuiltPlatform, ...]
    layout: Path
    docker_archive: Path | None
    tag: str
    bytes_downloaded: int
    seconds: Mapping[str, float]

    def to_json(self) -> dict[str, object]:
        """As plain values: those of the only platform stand at the top, those of several under `platforms`."""
        common: dict[str, object] = {
            "name": self.name,
            "digest": str(self.digest),
            "layout": str(self.layout),
            "docker_archive": str(self.docker_archive) if self.docker_archive else None,
            "tag": self.tag if self.docker_archive else None,
            "bytes_downloaded": self.bytes_downloaded,
            "seconds": {stage: round(taken, 3) for stage, taken in self.seconds.items()},
        }
        if len(self.platforms) == 1:
            return common | self.platforms[0].to_json() | {"digest": str(self.digest)}
        return common | {"platforms": [platform.to_json() for platform in self.platforms]}
