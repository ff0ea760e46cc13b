"""What wheels are chosen for: an interpreter on a platform with a C library."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.version import Version

__all__ = ["Target"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A CPython `python` ("3.13"; in full "3.13.5") on Linux, on `machine` (x86_64, aarch64), with `glibc` "2.41".

    `glibc` is None where there is none (then only wheels without machine code fit).
    """

    python: str
    python_full: str
    machine: str
    glibc: str | None

    @property
    def release(self) -> tuple[int, int]:
        """The interpreter's X.Y as numbers."""
        major, minor = self.python.split(".")[:2]
        return int(major), int(minor)

    @property
    def version(self) -> Version:
        """The interpreter's full version, as Requires-Python is compared with."""
        return Version(self.python_full)

    @property
    def glibc_release(self) -> tuple[int, int] | None:
        """The C library's X.Y as numbers."""
        if self.glibc is None:
            return None
        major, minor = self.glibc.split(".")[:2]
        return int(major), int(minor)

    def environment(self, extra: str = "") -> dict[str, str]:
        """The variables of environment markers; kernel release and version are unknown, hence empty."""
        return {
            "implementation_name": "cpython",
            "implementation_version": self.python_full,
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": self.python_full,
            "python_version": self.python,
            "sys_platform": "linux",
            "extra": extra,
        }

    def __str__(self) -> str:
        library = f" with glibc {self.glibc}" if self.glibc else ""
        return f"CPython {self.python} on Linux {self.machine}{library}"
