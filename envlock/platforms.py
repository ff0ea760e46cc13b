"""The platforms an environment can be locked for, in the names each neighbour uses for them."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Platform"]


class Platform(StrEnum):
    """An OCI platform."""

    AMD64 = "linux/amd64"
    ARM64 = "linux/arm64"

    @property
    def machine(self) -> str:
        """As `uname -m` and wheel tags write it: x86_64, aarch64."""
        return {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}[self.value]

    @property
    def architecture(self) -> str:
        """As OCI and Debian write it: amd64, arm64."""
        return self.value.removeprefix("linux/")

    @property
    def conda(self) -> str:
        """As conda's channels write it: linux-64, linux-aarch64."""
        return {"linux/amd64": "linux-64", "linux/arm64": "linux-aarch64"}[self.value]

    @property
    def multiarch(self) -> str:
        """Debian's library folder: x86_64-linux-gnu, aarch64-linux-gnu."""
        return f"{self.machine}-linux-gnu"

    @property
    def loader(self) -> str:
        """The ELF loader's path, without the leading slash."""
        return {"linux/amd64": "lib64/ld-linux-x86-64.so.2", "linux/arm64": "lib/ld-linux-aarch64.so.1"}[self.value]
