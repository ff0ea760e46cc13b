"""The choices that come nearest to a target which nothing fits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement as Pep508
from packaging.utils import canonicalize_name
from packaging.version import Version

from envlock.errors import Unsatisfiable
from envlock.lock.contract import Kind, Mismatch, contract_of_build, judge
from envlock.lock.cuda_facts import TorchBuild, exists_for, released, torch_builds
from envlock.lock.model import HostContract
from envlock.lock.tightening import Attempt, describe_target
from envlock.platforms import Platform
from envlock.spec.model import EnvSpec, Requirement

__all__ = ["Choice", "contract_unmet"]

_SHOWN = 2
_OTHERS = "does not go with the other requirements"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A stack and what is wrong with it: words, the things that they are about, and the driver that it would take."""

    title: str
    version: Version
    words: tuple[str, ...]
    about: frozenset[tuple[str, str | None]]
    driver: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.title}: {'; '.join(self.words)}"


def contract_unmet(
    attempts: Sequence[Attempt], spec: EnvSpec, platform: Platform, *, refusals: Sequence[str] = ()
) -> Unsatisfiable:
    """The fault to raise where no attempt met the target: code "contract-unmet".

    `refusals` are what the resolver said where limits left nothing; the first is told where it explains a choice.
    """
    choices = _nearest_choices(attempts, spec, platform)
    lines = "\n".join(f"  {choice}" for choice in choices)
    if refusals and any(_OTHERS in words for choice in choices for words in choice.words):
        lines = f"{lines}\nWithin the target's limits, {refusals[0]}"
    return Unsatisfiable(
        f"nothing that fits both the requirements and the target ({describe_target(spec.target)}) was found for "
        f"{platform}; the nearest:\n{lines}",
        hint=_hint(spec, attempts),
        code="contract-unmet",
    )


def _nearest_choices(attempts: Sequence[Attempt], spec: EnvSpec, platform: Platform) -> tuple[Choice, ...]:
    """The nearest two, of what was resolved and of the known builds of torch, which fail for different reasons."""
    found: dict[str, Choice] = {}
    for choice in (*_tried(attempts), *_known(attempts, spec, platform)):
        found.setdefault(choice.title, choice)
    ranked = sorted(found.values(), key=lambda choice: choice.version, reverse=True)
    ranked.sort(key=lambda choice: (len(choice.words), choice.driver))
    first, *others = ranked
    for_other_reasons = [choice for choice in others if not choice.about >= first.about]
    with_other_words = [choice for choice in others if choice.words != first.words]
    return (first, *(for_other_reasons or with_other_words or others))[:_SHOWN]


def _tried(attempts: Iterable[Attempt]) -> Iterator[Choice]:
    for attempt in attempts:
        version = Version(attempt.torch.version) if attempt.torch else Version("0")
        yield _choice(attempt.title, version, attempt.contract, attempt.mismatches)


def _known(attempts: Sequence[Attempt], spec: EnvSpec, platform: Platform) -> Iterator[Choice]:
    """Known builds of the kinds that were met with, each with what the target or the requirements have against it."""
    labels = {Version(attempt.torch.version).local for attempt in attempts if attempt.torch is not None}
    for build in torch_builds():
        if build.machine != platform.machine or build.version.local not in labels:
            continue
        if not exists_for(build, spec.python_version):
            continue
        title = f"torch {build.version} with CUDA {build.cuda}"
        contract = contract_of_build(build, platform)
        mismatches = judge(contract, spec.target, torch=str(build.version))
        if mismatches:
            yield _choice(title, build.version, contract, mismatches)
        else:
            about = frozenset({("requirements", None)})
            yield Choice(title=title, version=build.version, words=(_excluded(build, spec),), about=about)


def _choice(title: str, version: Version, contract: HostContract, mismatches: Sequence[Mismatch]) -> Choice:
    too_new = any(mismatch.kind is Kind.DRIVER for mismatch in mismatches)
    return Choice(
        title=title,
        version=version,
        words=tuple(mismatch.words for mismatch in mismatches),
        about=frozenset((mismatch.kind.value, mismatch.gpu) for mismatch in mismatches),
        driver=released(contract.driver) if too_new and contract.driver else (),
    )


def _excluded(build: TorchBuild, spec: EnvSpec) -> str:
    """Why a build that the target runs was not taken."""
    origins = [
        f"{requirement.text} ({requirement.origin})"
        for requirement in (*spec.python.requirements, *spec.python.constraints)
        if _excludes(requirement, build.version)
    ]
    if origins:
        return f"would run on the target, but is excluded by {' and '.join(origins)}"
    return f"would run on the target, but {_OTHERS}"


def _excludes(requirement: Requirement, version: Version) -> bool:
    parsed = Pep508(requirement.text)
    if canonicalize_name(parsed.name) != "torch":
        return False
    return parsed.url is not None or not parsed.specifier.contains(version, prereleases=True)


def _hint(spec: EnvSpec, attempts: Sequence[Attempt]) -> str:
    if spec.target.cuda == "cpu" and any(attempt.torch for attempt in attempts):
        return (
            "Name an index of builds for the CPU, and let torch come from it alone:\n"
            '[[index]]\nname = "torch-cpu"\nurl = "https://..."\npackages = ["torch", "torchvision"]'
        )
    return (
        "Loosen [target] to the machines that you will really rent, or the requirement that stands in the way; or "
        'name an index with other builds of torch: [[index]] with a name and a url, and packages = ["torch"] to '
        "take it from there alone."
    )
