"""conda's environment.yml: channels, dependencies and its pip section, each with its line; the rest is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import yaml

from envlock.spec.faults import Faults, Wrong
from envlock.spec.model import Requirement
from envlock.spec.secrets import refuse_credentials

__all__ = ["CondaEnvironment", "PipLine", "read_environment"]

_LARGEST = 1 << 20  # bytes; nobody writes more by hand
# Keys that say nothing of what is installed, or what becomes of them here.
_SAYS_NOTHING = frozenset({"name", "prefix"})
_INSTEAD = {
    "variables": "write them in [image] env in envlock.toml",
    "category": "write a file with what the image needs",
    "platforms": "write platforms under [env] in envlock.toml",
}


@dataclass(frozen=True, slots=True)
class PipLine:
    """One line of the pip section."""

    text: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CondaEnvironment:
    """What an environment.yml asks for."""

    channels: tuple[str, ...] = ()
    dependencies: tuple[Requirement, ...] = ()
    pip: tuple[PipLine, ...] = ()


@dataclass(slots=True)
class _Reader:
    file: str
    faults: Faults
    channels: list[str] = field(default_factory=list)
    dependencies: list[Requirement] = field(default_factory=list)
    pip: list[PipLine] = field(default_factory=list)

    def fault(self, node: yaml.Node, words: Wrong | str) -> None:
        self.faults.add_elsewhere(self.file, node.start_mark.line + 1, words)

    def document(self, node: yaml.Node) -> None:
        if not isinstance(node, yaml.MappingNode):
            self.fault(node, "not a mapping; write `dependencies:` and a list below it")
            return
        for key, value in node.value:
            match key.value:
                case "channels":
                    self.each(value, self.channel)
                case "dependencies":
                    self.each(value, self.dependency)
                case name if name not in _SAYS_NOTHING:
                    instead = _INSTEAD.get(str(name), "delete it")
                    self.fault(key, f"{name}: cannot be carried over; {instead}")
        if not self.dependencies and not self.pip:
            self.fault(node, "nothing is asked for; write `dependencies:` and a list below it")

    def each(self, node: yaml.Node, take: object) -> None:
        if not isinstance(node, yaml.SequenceNode):
            self.fault(node, "not a list; write each entry on a line that begins with `-`")
            return
        for item in node.value:
            try:
                take(item)  # type: ignore[operator]  # one of the two methods below
            except Wrong as wrong:
                self.fault(item, wrong)

    def channel(self, node: yaml.Node) -> None:
        name = _scalar(node).rstrip("/")
        if name == "nodefaults":  # no channel that is not named is asked anyway
            return
        refuse_credentials(name)
        if "/t/" in name or "$" in name:
            raise Wrong(
                "the channel holds a token or a variable", "write it without, and put the token into .condarc"
            )
        self.channels.append(name)

    def dependency(self, node: yaml.Node) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value != "pip":
                    self.fault(key, f"{key.value}: cannot be carried over; only `pip:` can stand here")
                else:
                    self.each(value, self.pip_line)
            return
        from envlock.spec.conda import match_spec  # noqa: PLC0415 (it imports this file)

        written = _scalar(node)
        if written.partition("#")[0].strip().startswith("@") or "#sel" in written:
            raise Wrong(f"{written!r} is for another tool", "write a match spec")
        text = match_spec(written)
        if text != "pip":  # wheels need no pip in the image
            self.dependencies.append(Requirement(text=text, origin=f"{self.file}:{node.start_mark.line + 1}"))

    def pip_line(self, node: yaml.Node) -> None:
        self.pip.append(PipLine(_scalar(node), node.start_mark.line + 1))


def read_environment(path: Path, faults: Faults) -> CondaEnvironment:
    """Read the file; what cannot be carried over is a fault with its line."""
    try:
        data = path.read_bytes()
        if len(data) > _LARGEST:
            faults.add_elsewhere(path.name, 1, f"has {len(data)} bytes, which is no environment; name another file")
            return CondaEnvironment()
        root = yaml.compose(data.decode("utf-8-sig"), Loader=yaml.SafeLoader)
    except OSError as exc:
        faults.add_elsewhere(path.name, 1, f"cannot be read ({exc.strerror}); name another file")
        return CondaEnvironment()
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as exc:
        mark = getattr(exc, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        what = getattr(exc, "problem", None) or exc
        faults.add_elsewhere(path.name, line, f"not YAML: {what}; write it as conda's documentation has it")
        return CondaEnvironment()
    reader = _Reader(path.name, faults)
    if root is None:
        faults.add_elsewhere(path.name, 1, "empty; write `dependencies:` and a list below it")
    else:
        reader.document(root)
    return CondaEnvironment(
        channels=tuple(dict.fromkeys(reader.channels)),
        dependencies=tuple(reader.dependencies),
        pip=tuple(reader.pip),
    )


def _scalar(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode) or not node.value.strip():
        raise Wrong("not a text", "write one entry a line")
    return str(node.value).strip()
