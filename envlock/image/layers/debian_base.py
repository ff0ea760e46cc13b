"""The last layer of the base: what is made from all packages together, in place of their maintainer scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import md5

from envlock.image.layers import entries as layer
from envlock.image.layers.debian_accounts import AccountRequest, Accounts, User, account_calls, accounts, sysusers
from envlock.image.layers.debian_alternatives import alternative_entries, choices
from envlock.image.layers.debian_archive import DebFile, faulty, read_files, read_members
from envlock.image.layers.debian_certificates import certificate_entries
from envlock.image.layers.debian_control import Control, read_control
from envlock.image.layers.debian_dpkg import database_entries
from envlock.image.layers.debian_order import ordered
from envlock.image.layers.debian_pam import pam_entries
from envlock.image.layers.debian_paths import EXCLUDES_FILE, excludes_config, merged, merged_links
from envlock.image.layers.debian_scripts import work_of

__all__ = ["base_entries"]

# Files of packages that are read to make others of them.
_READ = (
    "usr/lib/sysusers.d/",
    "usr/share/base-passwd/",
    "usr/share/ca-certificates/",
    "usr/share/debianutils/shells",
    "usr/share/pam-configs/",
    "usr/share/pam/common-",
)
_SKELETON = "etc/skel/"
_POLICY = """\
#!/bin/sh
# No service is started by installing its package: there is no init in a container.
exit 101
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """The packages' control data, sorted by name, and the files of theirs that are needed, by path."""

    controls: tuple[Control, ...]
    files: dict[str, bytes]
    conffile_sums: dict[str, dict[str, str]]  # package -> absolute path -> md5


def base_entries(
    debs: Sequence[DebFile], *, users: Sequence[User] = (), apt_sources: str | None = None
) -> Iterator[layer.Entry]:
    """What maintainer scripts would have left behind once all these packages were installed.

    The links of the merged /usr, accounts, dpkg's database, alternatives, the CA bundle, PAM's common files and the
    small files of `debian_scripts.toml`; `users` with their homes; `apt_sources` (text in deb822 form) as apt's only
    source. No entry but a directory stands in any `deb_entries` of the same packages. A pure function of the .debs
    and arguments: their order does not matter. Entries come sorted by path.
    """
    base = _read(debs)
    book = _accounts(base, users)
    made = [
        *_links(base),
        *_accounts_files(book),
        *database_entries(base.controls, base.conffile_sums),
        *alternative_entries(choice for control in base.controls for choice in choices(control)),
        *_scripted(base),
        *pam_entries(base.files),
        *_shells(base),
        *_homes(base, book),
        layer.File(path=EXCLUDES_FILE, body=excludes_config().encode()),
        layer.File(path="usr/sbin/policy-rc.d", body=_POLICY.encode(), mode=0o755),
    ]
    if any(path.startswith("usr/share/ca-certificates/") for path in base.files):
        made += certificate_entries(base.files)
    if apt_sources is not None:
        made.append(layer.File(path="etc/apt/sources.list.d/debian.sources", body=apt_sources.encode()))
    yield from ordered(made)


def _read(debs: Iterable[DebFile]) -> _Base:
    controls = tuple(sorted(map(read_control, debs), key=lambda control: control.qualified))
    sources = {source for control in controls for _, source in work_of(control).copies}
    files: dict[str, bytes] = {}
    sums: dict[str, dict[str, str]] = {}
    for control in controls:
        bodies = _bodies(control, sources)
        conffiles = {path.lstrip("/") for path in control.conffiles}
        sums[control.qualified] = {"/" + path: _md5(body) for path, body in bodies.items() if path in conffiles}
        files |= {
            merged(path): body for path, body in bodies.items() if path not in conffiles or path.startswith(_SKELETON)
        }
    return _Base(controls=controls, files=files, conffile_sums=sums)


def _bodies(control: Control, sources: set[str]) -> dict[str, bytes]:
    """The files of a package that are needed here: its configuration files, and what is read or copied."""
    conffiles = {path.lstrip("/") for path in control.conffiles}
    if control.listed is None:
        members = {member.path: member.body for member in read_members(control.deb) if member.body is not None}
        return {path: body for path, body in members.items() if path in conffiles or _is_read(path, sources)}
    wanted = {path for path in control.listed if path in conffiles or _is_read(path, sources)}
    found = read_files(control.deb, wanted) if wanted else {}
    for path in sorted(wanted - found.keys() - conffiles):
        raise faulty(control.deb, path, "stands in md5sums, and not in the data archive")
    return found


def _is_read(path: str, sources: set[str]) -> bool:
    place = merged(path)
    return place in sources or place.startswith(_READ)


def _links(base: _Base) -> Iterator[layer.Entry]:
    architectures = {control.deb.architecture for control in base.controls} - {"all"}
    for architecture in architectures:
        for path, target in merged_links(architecture).items():
            yield layer.Symlink(path=path, target=target)
            yield layer.Directory(path=target)


def _accounts(base: _Base, users: Sequence[User]) -> Accounts:
    masters = {
        kind: base.files[f"usr/share/base-passwd/{kind}.master"].decode()
        for kind in ("passwd", "group")
        if f"usr/share/base-passwd/{kind}.master" in base.files
    }
    requests = [
        request
        for path, body in sorted(base.files.items())
        if path.startswith("usr/lib/sysusers.d/")
        for request in sysusers(body.decode())
    ]
    for control in base.controls:
        requests += [request for request in account_calls(control) if isinstance(request, AccountRequest)]
    return accounts(masters, requests, users)


def _accounts_files(book: Accounts) -> Iterator[layer.Entry]:
    for path, text, mode, gid in book.files():
        yield layer.File(path=path, body=text.encode(), mode=mode, gid=gid)


def _scripted(base: _Base) -> Iterator[layer.Entry]:
    """The directories, links, texts and copies of the table."""
    registered: list[tuple[str, str, bytes]] = []
    for control in base.controls:
        work = work_of(control)
        for item in work.directories:
            yield layer.Directory(path=item.path, mode=item.mode, uid=item.uid, gid=item.gid)
        for path, target in work.links:
            yield layer.Symlink(path=path, target=target)
        for text in work.texts:
            yield layer.File(path=text.path, body=text.text.encode(), mode=text.mode, gid=text.gid)
        for path, source in work.copies:
            if source in base.files:
                yield layer.File(path=path, body=base.files[source])
                if path in work.registered:
                    registered.append((control.deb.name, path, base.files[source]))
    if registered:
        yield from _registry(registered)


def _registry(registered: list[tuple[str, str, bytes]]) -> Iterator[layer.Entry]:
    """The record of ucf, which tells on an upgrade whether a file was changed by its owner."""
    sums = "".join(f"{_md5(body)}  /{path}\n" for _, path, body in registered)
    owners = "".join(f"{package} \t /{path}\n" for package, path, _ in registered)
    yield layer.File(path="var/lib/ucf/hashfile", body=sums.encode())
    yield layer.File(path="var/lib/ucf/registry", body=owners.encode())
    for _, path, body in registered:
        yield layer.File(path=f"var/lib/ucf/cache/:{path.replace('/', ':')}", body=body)


def _shells(base: _Base) -> Iterator[layer.Entry]:
    """/etc/shells and the record of update-shells, which also knows each shell by its place on the merged /usr."""
    template = base.files.get("usr/share/debianutils/shells")
    if template is None:
        return
    shells: list[str] = []
    sources = [path for path in sorted(base.files) if path.startswith("usr/share/debianutils/shells.d/")]
    for text in (template, *(base.files[path] for path in sources)):
        for line in text.decode().splitlines():
            shell = line.partition("#")[0].strip()
            names = (shell, f"/{merged(shell)}") if shell else ()
            shells += [name for name in dict.fromkeys(names) if name not in shells]
    given = template.decode()
    added = [shell for shell in shells if shell not in given.splitlines()]
    yield layer.File(path="etc/shells", body=(given + "".join(f"{shell}\n" for shell in added)).encode())
    yield layer.File(path="var/lib/shells.state", body="".join(f"{shell}\n" for shell in shells).encode())


def _homes(base: _Base, book: Accounts) -> Iterator[layer.Entry]:
    """A home for each user that the image's owner added, with the files of /etc/skel."""
    skeleton = {path.removeprefix(_SKELETON): body for path, body in base.files.items() if path.startswith(_SKELETON)}
    for account in book.users:
        home = account.home.strip("/")
        if account.added and home:
            yield layer.Directory(path=home, uid=account.uid, gid=account.gid)
            for name, body in skeleton.items():
                yield layer.File(path=f"{home}/{name}", body=body, uid=account.uid, gid=account.gid)


def _md5(body: bytes) -> str:
    return md5(body, usedforsecurity=False).hexdigest()
