"""Users and groups of the base: Debian's masters, what packages ask for, and the image's own users."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from envlock.errors import FaultyInput
from envlock.image.layers.debian_control import Control
from envlock.image.layers.debian_scripts import calls, fixed_ids

__all__ = ["Account", "AccountRequest", "Accounts", "Group", "User", "account_calls", "accounts", "sysusers"]

_NOLOGIN = "/usr/sbin/nologin"
_NOGROUP = 65534
_CHANGED = 946684800 // 86400  # day of the last password change: the layers' own date
_HIGHEST = 989  # of the numbers handed out to accounts that have no fixed one, downwards
_SHADOW = 42
_LEAST_USERS = "root:*:0:0:root:/root:/bin/bash\nnobody:*:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
_LEAST_GROUPS = "root:*:0:\nshadow:*:42:\nnogroup:*:65534:\n"

# adduser's and addgroup's options, and whether a value follows
_OPTIONS = {
    "--system": False,
    "--group": False,
    "--quiet": False,
    "--no-create-home": False,
    "--disabled-password": False,
    "--disabled-login": False,
    "--force-badname": False,
    "--allow-badname": False,
    "--allow-bad-names": False,
    "--home": True,
    "--shell": True,
    "--gecos": True,
    "--comment": True,
    "--ingroup": True,
    "--uid": True,
    "--gid": True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user that the image's owner asks for; without `gid` it has a group of its own name and number."""

    name: str
    uid: int
    gid: int | None = None
    home: str = ""  # absolute; by default /home/<name>
    shell: str = "/bin/bash"
    gecos: str = ""
    groups: tuple[str, ...] = ()  # further groups, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRequest:
    """A system account that a package wants. `group` is a name or a number, None for one of its own."""

    name: str
    is_user: bool
    number: int | None = None
    group: str | None = None
    gecos: str = ""
    home: str = "/nonexistent"
    shell: str = _NOLOGIN
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A line of /etc/passwd and of /etc/shadow."""

    name: str
    uid: int
    gid: int
    gecos: str
    home: str
    shell: str
    system: bool = False
    added: bool = False  # by the image's owner

    def passwd(self) -> str:
        """The line of /etc/passwd."""
        return f"{self.name}:x:{self.uid}:{self.gid}:{self.gecos}:{self.home}:{self.shell}\n"

    def shadow(self) -> str:
        """The line of /etc/shadow: no password opens any account, keys do."""
        return f"{self.name}:!*:{_CHANGED}::::::\n" if self.system else f"{self.name}:*:{_CHANGED}:0:99999:7:::\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A line of /etc/group and of /etc/gshadow."""

    name: str
    gid: int
    members: tuple[str, ...] = ()
    system: bool = False

    def group(self) -> str:
        """The line of /etc/group."""
        return f"{self.name}:x:{self.gid}:{','.join(self.members)}\n"

    def gshadow(self) -> str:
        """The line of /etc/gshadow."""
        return f"{self.name}:{'!*' if self.system else '*'}::{','.join(self.members)}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """All users and groups, in the order of their files."""

    users: tuple[Account, ...]
    groups: tuple[Group, ...]

    def files(self) -> Iterator[tuple[str, str, int, int]]:
        """Path, text, mode and gid of the four files."""
        yield "etc/group", "".join(group.group() for group in self.groups), 0o644, 0
        yield "etc/gshadow", "".join(group.gshadow() for group in self.groups), 0o640, _SHADOW
        yield "etc/passwd", "".join(user.passwd() for user in self.users), 0o644, 0
        yield "etc/shadow", "".join(user.shadow() for user in self.users), 0o640, _SHADOW


def accounts(masters: Mapping[str, str], requests: Iterable[AccountRequest], users: Sequence[User] = ()) -> Accounts:
    """Put together all accounts.

    `masters` are base-passwd's `passwd` and `group`. Raise FaultyInput where a user of the image's owner takes
    the name or the number of another account.
    """
    book = _Book(masters.get("passwd", _LEAST_USERS), masters.get("group", _LEAST_GROUPS))
    for request in sorted(requests, key=_turn):
        book.grant(request)
    for user in users:
        book.add(user)
    return Accounts(users=tuple(book.users.values()), groups=tuple(book.groups.values()))


def _turn(request: AccountRequest) -> tuple[bool, bool, str]:
    """Groups before the users that name them, and fixed numbers before those that take what is left."""
    return request.is_user, request.number is None and request.name not in fixed_ids(), request.name


class _Book:
    """The accounts so far, by name."""

    def __init__(self, passwd: str, group: str) -> None:
        self.users: dict[str, Account] = {}
        self.groups: dict[str, Group] = {}
        for line in group.splitlines():
            name, _, gid, *_ = line.split(":")
            self.groups[name] = Group(name=name, gid=int(gid))
        for line in passwd.splitlines():
            name, _, uid, gid, gecos, home, shell = line.split(":")
            self.users[name] = Account(name=name, uid=int(uid), gid=int(gid), gecos=gecos, home=home, shell=shell)

    def grant(self, request: AccountRequest) -> None:
        """Make a package's account, unless it is there."""
        known = self.users if request.is_user else self.groups
        if request.name not in known:
            number = self._number(request)
            gid = self._group_of(request, number)
            if request.is_user:
                self.users[request.name] = Account(
                    name=request.name,
                    uid=number,
                    gid=gid,
                    gecos=request.gecos,
                    home=request.home,
                    shell=request.shell,
                    system=True,
                )
        for member in request.members:
            self._join(member, request.name)

    def _number(self, request: AccountRequest) -> int:
        if request.number is not None:
            return request.number
        fixed = fixed_ids()
        if request.name in fixed:
            return fixed[request.name]
        if request.name in self.groups:
            return self.groups[request.name].gid
        taken = {user.uid for user in self.users.values()} | {group.gid for group in self.groups.values()}
        taken |= set(fixed.values())
        return next(number for number in range(_HIGHEST, 0, -1) if number not in taken)

    def _group_of(self, request: AccountRequest, number: int) -> int:
        """The number of the account's group, which is made where it is the account's own."""
        if request.group is not None:
            return int(request.group) if request.group.isdigit() else self._gid(request.group)
        if request.name not in self.groups:
            self.groups[request.name] = Group(name=request.name, gid=number, system=True)
        return self.groups[request.name].gid

    def _gid(self, name: str) -> int:
        return self.groups[name].gid if name in self.groups else _NOGROUP

    def _join(self, member: str, name: str) -> None:
        group = self.groups[name]
        if member not in group.members:
            self.groups[name] = replace(group, members=(*group.members, member))

    def add(self, user: User) -> None:
        """Make a user of the image's owner."""
        known = self.users.get(user.name)
        if known is not None:
            if known.uid != user.uid:
                raise _clash(user, f"the base's own user of that name has uid {known.uid}")
            return
        other = next((name for name, account in self.users.items() if account.uid == user.uid), None)
        if other is not None:
            raise _clash(user, f"uid {user.uid} is {other}'s")
        gid = user.uid if user.gid is None else user.gid
        if all(group.gid != gid for group in self.groups.values()):
            if user.name in self.groups:
                raise _clash(user, f"the base's own group of that name has gid {self.groups[user.name].gid}")
            self.groups[user.name] = Group(name=user.name, gid=gid)
        self.users[user.name] = Account(
            name=user.name,
            uid=user.uid,
            gid=gid,
            gecos=user.gecos,
            home=user.home or f"/home/{user.name}",
            shell=user.shell,
            added=True,
        )
        for group in user.groups:
            if group not in self.groups:
                raise _clash(user, f"the base has no group {group}")
            self._join(user.name, group)


def _clash(user: User, what: str) -> FaultyInput:
    return FaultyInput(
        f"user {user.name}: {what}",
        hint="Take another name or number for the image's user; 1000 and above are free in a Debian base.",
        code="user-clash",
    )


def sysusers(text: str) -> Iterator[AccountRequest]:
    """The accounts that a sysusers.d file declares (systemd's sysusers.d(5))."""
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if len(words) < 2 or "%" in words[1]:  # noqa: PLR2004 (kind and name)
            continue
        kind, name, *rest = words
        number, gecos, home, shell = (*("" if word == "-" else word for word in rest), "", "", "", "")[:4]
        uid, _, group = number.partition(":")
        match kind.rstrip("!"):
            case "u":
                yield AccountRequest(
                    name=name,
                    is_user=True,
                    number=int(uid) if uid.isdigit() else None,
                    group=group or None,
                    gecos=gecos,
                    home=home or "/",
                    shell=shell or _NOLOGIN,
                )
            case "g":
                yield AccountRequest(name=name, is_user=False, number=int(uid) if uid.isdigit() else None)
            case "m":
                yield AccountRequest(name=rest[0] if rest else name, is_user=False, members=(name,))


def account_calls(control: Control) -> Iterator[AccountRequest | str]:
    """The accounts that a package's scripts make; a program's name stands for a call that cannot be read."""
    for program in ("addgroup", "adduser", "groupadd", "useradd"):
        for call in calls(control, program):
            request = _request(program, call.words) if call.plain else None
            yield program if request is None else request


def _request(program: str, words: tuple[str, ...]) -> AccountRequest | None:
    if program not in {"addgroup", "adduser"} or "--system" not in words:
        return None
    options: dict[str, str] = {}
    names: list[str] = []
    remaining = iter(words)
    for word in remaining:
        option, _, value = word.partition("=")
        if not word.startswith("-"):
            names.append(word)
        elif option not in _OPTIONS:
            return None
        else:
            options[option] = value or (next(remaining, "") if _OPTIONS[option] else "")
    if len(names) != 1:
        return None
    is_user = program == "adduser"
    number = options.get("--uid" if is_user else "--gid")
    own_group = not is_user or "--group" in options
    return AccountRequest(
        name=names[0],
        is_user=is_user,
        number=int(number) if number and number.isdigit() else None,
        group=None if own_group else options.get("--ingroup", "nogroup"),
        gecos=options.get("--gecos", options.get("--comment", "")),
        home=options.get("--home", "/nonexistent"),
        shell=options.get("--shell", _NOLOGIN),
    )
