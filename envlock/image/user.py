"""The user that the image runs as."""

from __future__ import annotations

from dataclasses import dataclass

from envlock.image.layers.debian_accounts import User

__all__ = ["ImageUser", "image_user"]

_FIRST = 1000  # of the numbers that Debian leaves to people
_LAST = 59999
_UNNAMED = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageUser:
    """Numbers and home; `added` is the account that the base gets for it, if it gets one.

    The configuration names the user by number: Kubernetes can tell only from a number that it is not root.
    """

    uid: int = 0
    gid: int = 0
    home: str = "/root"
    added: User | None = None

    @property
    def written(self) -> str:
        """As an image's configuration has it; "" is root."""
        if self.uid == 0 and self.gid == 0:
            return ""
        return str(self.uid) if self.added and self.gid == self.uid else f"{self.uid}:{self.gid}"


def image_user(text: str | None) -> ImageUser:
    """Read `[image] user`: a name becomes user 1000; a number of a person (1000 to 59999) gets an account.

    Without an account, `getpass.getuser()` fails in the container, and with it torch's compiler.
    """
    if text is None:
        return ImageUser()
    name, uid, gid = _UNNAMED, _FIRST, _FIRST
    if text[0].isdigit():
        user, _, group = text.partition(":")
        uid = int(user)
        gid = int(group or user)
    else:
        name = text
    if not _FIRST <= uid <= _LAST:
        return ImageUser(uid=uid, gid=gid, home="/")
    home = f"/home/{name}"
    return ImageUser(uid=uid, gid=gid, home=home, added=User(name=name, uid=uid, gid=gid, home=home))
