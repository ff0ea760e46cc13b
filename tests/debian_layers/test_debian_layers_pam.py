from __future__ import annotations

from envlock.image.layers.debian_pam import pam_entries
from envlock.image.layers.entries import File

TEMPLATE = """\
# a comment
# here are the per-package modules (the "Primary" block)
$auth_primary
# here's the fallback if no module succeeds
{word}\trequisite\tpam_deny.so
# and here are more per-package modules (the "Additional" block)
$auth_additional
# end of pam-auth-update config
"""
UNIX = """\
Name: Unix authentication
Default: yes
Priority: 256
Auth-Type: Primary
Auth:
\t[success=end default=ignore]\tpam_unix.so try_first_pass
Auth-Initial:
\t[success=end default=ignore]\tpam_unix.so
Session-Type: Additional
Session:
\trequired\tpam_unix.so
"""
LDAP = """\
Name: Directory
Default: yes
Priority: 512
Auth-Type: Primary
Auth-Final:
\t[success=end default=ignore]\tpam_ldap.so
\trequired\tpam_two.so
Session-Type: Additional
Session-Interactive-Only: yes
Session:
\toptional\tpam_mkhomedir.so
"""
HOMES = "Name: Homes\nDefault: no\nPriority: 0\nSession-Type: Additional\nSession:\n\toptional\tpam_x.so\n"


def files_of(**profiles: str) -> dict[str, str]:
    given = {f"usr/share/pam-configs/{name}": body.encode() for name, body in profiles.items()}
    for kind, word in (("auth", "auth"), ("session", "session"), ("session-noninteractive", "session")):
        given[f"usr/share/pam/common-{kind}"] = TEMPLATE.format(word=word).encode()
    entries = [entry for entry in pam_entries(given) if isinstance(entry, File)]
    return {entry.path: entry.body.decode() for entry in entries if isinstance(entry.body, bytes)}


def lines_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_one_profile_is_written_as_pam_auth_update_writes_it() -> None:
    files = files_of(unix=UNIX, homes=HOMES)
    assert lines_of(files["etc/pam.d/common-auth"]) == [
        "auth\t[success=1 default=ignore]\tpam_unix.so ",
        "auth\trequisite\tpam_deny.so",
    ]
    assert lines_of(files["etc/pam.d/common-session"]) == [
        "session\t[default=1]\t\t\tpam_permit.so",
        "session\trequisite\tpam_deny.so",
        "session\trequired\tpam_unix.so ",
    ]
    assert files["var/lib/pam/auth"] == "Module: unix\n[success=end default=ignore]\tpam_unix.so\n"
    assert files["var/lib/pam/session"] == (
        "Module: null\n[default=1]\t\t\tpam_permit.so\nModule: unix\nrequired\tpam_unix.so\n"
    )
    assert files["var/lib/pam/seen"] == "unix\nhomes\n"


def test_jumps_pass_over_the_lines_that_follow() -> None:
    files = files_of(unix=UNIX, ldap=LDAP)
    assert lines_of(files["etc/pam.d/common-auth"])[:3] == [
        "auth\t[success=3 default=ignore]\tpam_ldap.so ",
        "auth\trequired\tpam_two.so ",
        "auth\t[success=1 default=ignore]\tpam_unix.so try_first_pass",
    ]


def test_interactive_profiles_stay_out_of_the_other_sessions() -> None:
    files = files_of(unix=UNIX, ldap=LDAP)
    assert "pam_mkhomedir.so" in files["etc/pam.d/common-session"]
    assert "pam_mkhomedir.so" not in files["etc/pam.d/common-session-noninteractive"]


def test_without_templates_there_is_nothing_to_do() -> None:
    assert list(pam_entries({"usr/share/pam-configs/unix": UNIX.encode()})) == []
