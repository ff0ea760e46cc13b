from __future__ import annotations

from collections.abc import Sequence
from hashlib import md5
from pathlib import Path

import pytest
from certificates import LOUD, QUIET, SUBJECT_HASH
from debs_in_code import Item, Package, deb_of

from envlock.errors import FaultyInput
from envlock.image.layers.debian import User, base_entries, deb_entries, undone
from envlock.image.layers.debian_certificates import subject_hash
from envlock.image.layers.entries import Directory, Entry, File, Symlink

BASE_PASSWD = Package(
    name="base-passwd",
    items=[
        Item(
            path="./usr/share/base-passwd/passwd.master",
            body=b"root:*:0:0:root:/root:/bin/bash\nnobody:*:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        ),
        Item(
            path="./usr/share/base-passwd/group.master",
            body=b"root:*:0:\nshadow:*:42:\nvideo:*:44:\nnogroup:*:65534:\n",
        ),
    ],
)


def base_of(folder: Path, *packages: Package, users: Sequence[User] = ()) -> dict[str, Entry]:
    entries = list(base_entries([deb_of(folder, package) for package in packages], users=users))
    paths = [entry.path for entry in entries]
    assert paths == sorted(paths, key=str.encode)
    return {entry.path: entry for entry in entries}


def text(entries: dict[str, Entry], path: str) -> str:
    entry = entries[path]
    assert isinstance(entry, File)
    assert isinstance(entry.body, bytes)
    return entry.body.decode()


def script(body: str, name: str = "tool") -> Package:
    return Package(name=name, scripts={"postinst": f"#!/bin/sh\nset -e\n{body}\n"})


def test_the_order_of_packages_does_not_matter(tmp_path: Path) -> None:
    debs = [deb_of(tmp_path, package) for package in (BASE_PASSWD, script("addgroup --system zed"))]
    assert list(base_entries(debs)) == list(base_entries(debs[::-1]))


def test_usr_is_merged(tmp_path: Path) -> None:
    on_amd64 = base_of(tmp_path, Package())
    assert on_amd64["bin"] == Symlink(path="bin", target="usr/bin")
    assert on_amd64["lib64"] == Symlink(path="lib64", target="usr/lib64")
    assert on_amd64["usr/lib64"] == Directory(path="usr/lib64")
    assert "lib64" not in base_of(tmp_path, Package(architecture="arm64"))


def test_every_package_is_installed(tmp_path: Path) -> None:
    package = Package(
        name="zoo",
        items=[Item(path="./etc/zoo.conf", body=b"conf")],
        conffiles=["/etc/zoo.conf", "remove-on-upgrade /etc/old.conf"],
        control={"Homepage": "about:blank", "Depends": "libc6 (>= 2.41)", "Essential": "yes"},
    )
    status = text(base_of(tmp_path, package, Package()), "var/lib/dpkg/status")
    digest = md5(b"conf", usedforsecurity=False).hexdigest()
    first, second = status.removesuffix("\n").split("\n\n")
    assert first.startswith("Package: example\nStatus: install ok installed\n")
    assert second == (
        "Package: zoo\nEssential: yes\nStatus: install ok installed\nMaintainer: Nobody <nobody@example.org>\n"
        "Architecture: amd64\nVersion: 1.0-1\nDepends: libc6 (>= 2.41)\n"
        f"Conffiles:\n /etc/zoo.conf {digest}\n /etc/old.conf newconffile remove-on-upgrade\n"
        "Description: an example\nHomepage: about:blank\n"
    )


def test_triggers_overrides_diversions_and_architecture_are_recorded(tmp_path: Path) -> None:
    entries = base_of(
        tmp_path,
        Package(
            name="libx",
            control={"Multi-Arch": "same"},
            scripts={"triggers": "interest-noawait /usr/share/x\ninterest ldconfig\nactivate other\n"},
        ),
        script("dpkg-statoverride --update --add root tty 2755 /usr/bin/x"),
        Package(name="base-files", scripts={"preinst": "# DEP17 M4 protective diversions\n"}),
    )
    assert text(entries, "var/lib/dpkg/triggers/File") == "/usr/share/x libx:amd64/noawait\n"
    assert text(entries, "var/lib/dpkg/triggers/ldconfig") == "libx:amd64\n"
    assert text(entries, "var/lib/dpkg/statoverride") == "root tty 2755 /usr/bin/x\n"
    assert text(entries, "var/lib/dpkg/diversions").startswith("/lib32\n/.lib32.usr-is-merged\nbase-files\n")
    assert text(entries, "var/lib/dpkg/arch") == "amd64\n"


def test_later_installations_leave_out_the_same_files(tmp_path: Path) -> None:
    config = text(base_of(tmp_path, Package()), "etc/dpkg/dpkg.cfg.d/envlock")
    assert "path-exclude=/usr/share/man/*\n" in config
    assert config.index("path-exclude=/usr/share/doc/*") < config.index("path-include=/usr/share/doc/*/copyright")


def test_accounts_come_from_masters_declarations_and_scripts(tmp_path: Path) -> None:
    entries = base_of(
        tmp_path,
        BASE_PASSWD,
        Package(
            name="daemons",
            items=[
                Item(
                    path="./usr/lib/sysusers.d/daemons.conf",
                    body=b'# comment\nu! robot - "A Robot" /var/lib/robot\nu sshd -:nogroup "sshd user" /run/sshd\n'
                    b"g fixed 77 -\nm robot video\nu nobody 65534:65534 -\nu %odd - -\n",
                )
            ],
        ),
        script(
            "if ! getent group _ssh >/dev/null; then\n\taddgroup --system --quiet --force-badname _ssh\nfi", "one"
        ),
        script("adduser --system --home /nonexistent \\\n   --no-create-home --quiet alpha || true", "two"),
    )
    assert text(entries, "etc/passwd") == (
        "root:x:0:0:root:/root:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        "sshd:x:100:65534:sshd user:/run/sshd:/usr/sbin/nologin\n"
        "alpha:x:989:65534::/nonexistent:/usr/sbin/nologin\n"
        "robot:x:988:988:A Robot:/var/lib/robot:/usr/sbin/nologin\n"
    )
    assert text(entries, "etc/group") == (
        "root:x:0:\nshadow:x:42:\nvideo:x:44:robot\nnogroup:x:65534:\n_ssh:x:101:\nfixed:x:77:\nrobot:x:988:\n"
    )
    assert "root:*:10957:0:99999:7:::\n" in text(entries, "etc/shadow")
    assert "robot:!*:10957::::::\n" in text(entries, "etc/shadow")
    assert "_ssh:!*::\n" in text(entries, "etc/gshadow")
    for path, mode, gid in (("etc/passwd", 0o644, 0), ("etc/shadow", 0o640, 42), ("etc/gshadow", 0o640, 42)):
        entry = entries[path]
        assert isinstance(entry, File)
        assert (entry.mode, entry.gid) == (mode, gid)


def test_numbers_do_not_depend_on_other_packages_where_they_are_fixed(tmp_path: Path) -> None:
    alone = base_of(tmp_path, BASE_PASSWD, script("addgroup --system crontab"))
    among = base_of(tmp_path, BASE_PASSWD, script("addgroup --system crontab"), script("addgroup --system a", "a"))
    assert "crontab:x:103:\n" in text(alone, "etc/group")
    assert "crontab:x:103:\n" in text(among, "etc/group")


def test_the_images_own_user_gets_a_home_with_the_skeleton(tmp_path: Path) -> None:
    skeleton = Package(
        name="bash", items=[Item(path="./etc/skel/.profile", body=b"umask 022\n")], conffiles=["/etc/skel/.profile"]
    )
    user = User(name="trainer", uid=1000, groups=("video",))
    entries = base_of(tmp_path, BASE_PASSWD, skeleton, users=[user])
    assert text(entries, "etc/passwd").endswith("trainer:x:1000:1000::/home/trainer:/bin/bash\n")
    assert "video:x:44:trainer\n" in text(entries, "etc/group")
    assert entries["home/trainer"] == Directory(path="home/trainer", uid=1000, gid=1000)
    assert entries["home/trainer/.profile"] == File(
        path="home/trainer/.profile", body=b"umask 022\n", uid=1000, gid=1000
    )


def test_a_user_that_the_base_has_is_left_as_it_is(tmp_path: Path) -> None:
    user = User(name="nobody", uid=65534)
    assert not any(path.startswith("home") for path in base_of(tmp_path, BASE_PASSWD, users=[user]))


@pytest.mark.parametrize(
    "user",
    [
        User(name="trainer", uid=65534),
        User(name="nobody", uid=1000),
        User(name="shadow", uid=1000),
        User(name="trainer", uid=1000, groups=("none",)),
    ],
)
def test_a_user_who_takes_what_is_anothers_is_refused(tmp_path: Path, user: User) -> None:
    with pytest.raises(FaultyInput) as caught:
        base_of(tmp_path, BASE_PASSWD, users=[user])
    assert caught.value.code == "user-clash"


def test_alternatives_are_read_from_plain_calls(tmp_path: Path) -> None:
    gcc = script(
        "update-alternatives --quiet \\\n    --install /usr/bin/cc cc /usr/bin/gcc 20 \\\n    #--slave a b c\n", "gcc"
    )
    mawk = script(
        "ua() {\n\tupdate-alternatives --install /usr/bin/awk awk /usr/bin/mawk 5 \\\n"
        "\t--slave /usr/share/man/man1/awk.1.gz awk.1.gz /usr/share/man/man1/mawk.1.gz \\\n"
        "\t--slave /bin/nawk nawk /usr/bin/mawk\n}",
        "mawk",
    )
    gawk = script("update-alternatives --install /usr/bin/awk awk /usr/bin/gawk 10 || true", "gawk")
    book = script("update-alternatives --install /usr/share/man/man7/b.7.gz b.7.gz /usr/share/man/man7/c.7.gz 1", "b")
    entries = base_of(tmp_path, gcc, mawk, gawk, book)
    assert entries["usr/bin/cc"] == Symlink(path="usr/bin/cc", target="/etc/alternatives/cc")
    assert entries["etc/alternatives/cc"] == Symlink(path="etc/alternatives/cc", target="/usr/bin/gcc")
    assert entries["etc/alternatives/awk"] == Symlink(path="etc/alternatives/awk", target="/usr/bin/gawk")
    assert "usr/bin/nawk" not in entries  # gawk's choice has no such slave
    assert "etc/alternatives/b.7.gz" not in entries  # manual pages are not in the image
    assert text(entries, "var/lib/dpkg/alternatives/awk") == (
        "auto\n/usr/bin/awk\nawk.1.gz\n/usr/share/man/man1/awk.1.gz\nnawk\n/bin/nawk\n\n"
        "/usr/bin/gawk\n10\n\n\n/usr/bin/mawk\n5\n/usr/share/man/man1/mawk.1.gz\n/usr/bin/mawk\n\n"
    )
    alone = base_of(tmp_path, mawk)
    assert alone["usr/bin/nawk"] == Symlink(path="usr/bin/nawk", target="/etc/alternatives/nawk")
    assert "usr/share/man/man1/awk.1.gz" not in alone


def test_what_cannot_be_read_from_a_script_is_told(tmp_path: Path) -> None:
    debs = [
        deb_of(tmp_path, package)
        for package in (
            script('update-alternatives --install "$BIN" tool /usr/bin/x 5', "a"),
            script("adduser --system $NAME", "b"),
            script("useradd -r someone", "c"),
            script("dpkg-divert --add --rename --divert /x.real /x", "d"),
            script('dpkg-statoverride --add root "$GROUP" 2755 /usr/bin/x', "e"),
            script("dpkg-statoverride --add root unheard-of 2755 /usr/bin/x", "f"),
            script("echo 'an open quote addgroup\n' >/dev/null", "g"),
            script("update-alternatives --install '/a\n b' x /y 1", "h"),
            script("update-alternatives --remove x /y\n# adduser $X\ndpkg-divert --list", "i"),
            Package(name="gzip", scripts={"preinst": 'dpkg-divert --add "$TOOL"\n'}),
        )
    ]
    assert undone(debs) == (
        "a: update-alternatives",
        "b: adduser",
        "c: useradd",
        "d: dpkg-divert",
        "e: dpkg-statoverride",
        "f: dpkg-statoverride",
        "g: addgroup",
        "h: update-alternatives",
    )


def test_certificates_are_bundled_and_hashed_as_openssl_does(tmp_path: Path) -> None:
    package = Package(
        name="ca-certificates",
        items=[
            Item(path="./usr/share/ca-certificates/mozilla/Loud_(one),_or two.crt", body=LOUD.rstrip()),
            Item(path="./usr/share/ca-certificates/mozilla/Quiet.crt", body=QUIET),
        ],
    )
    entries = base_of(tmp_path, package)
    assert text(entries, "etc/ssl/certs/ca-certificates.crt") == (LOUD + QUIET).decode()
    assert entries[f"etc/ssl/certs/{SUBJECT_HASH}.0"] == Symlink(
        path=f"etc/ssl/certs/{SUBJECT_HASH}.0", target="Loud_=one=__or_two.pem"
    )
    assert entries[f"etc/ssl/certs/{SUBJECT_HASH}.1"] == Symlink(
        path=f"etc/ssl/certs/{SUBJECT_HASH}.1", target="Quiet.pem"
    )
    assert entries["etc/ssl/certs/Quiet.pem"] == Symlink(
        path="etc/ssl/certs/Quiet.pem", target="/usr/share/ca-certificates/mozilla/Quiet.crt"
    )
    assert text(entries, "etc/ca-certificates.conf").endswith("mozilla/Loud_(one),_or two.crt\nmozilla/Quiet.crt\n")


@pytest.mark.parametrize("pem", [b"", b"no certificate", LOUD[:200], LOUD.replace(b"MIIB7j", b"MIIF7j")])
def test_what_is_no_certificate_is_refused(pem: bytes) -> None:
    with pytest.raises(FaultyInput, match=r"odd\.crt: not a certificate"):
        subject_hash(pem, "odd.crt")


def test_small_files_are_copied_written_and_linked(tmp_path: Path) -> None:
    server = Package(
        name="openssh-server",
        architecture="amd64",
        items=[Item(path="./usr/share/openssh/sshd_config", body=b"UsePAM yes\n")],
    )
    python = Package(name="python3.13-minimal")
    entries = base_of(tmp_path, server, python, Package(name="tzdata", architecture="all"))
    assert text(entries, "etc/ssh/sshd_config") == "UsePAM yes\n"
    assert text(entries, "var/lib/ucf/cache/:etc:ssh:sshd_config") == "UsePAM yes\n"
    digest = md5(b"UsePAM yes\n", usedforsecurity=False).hexdigest()
    assert text(entries, "var/lib/ucf/hashfile") == f"{digest}  /etc/ssh/sshd_config\n"
    assert entries["run/sshd"] == Directory(path="run/sshd")
    assert entries["usr/local/lib/python3.13/dist-packages"] == Directory(
        path="usr/local/lib/python3.13/dist-packages"
    )
    assert entries["etc/localtime"] == Symlink(path="etc/localtime", target="/usr/share/zoneinfo/Etc/UTC")
    assert not any("host_key" in path for path in entries)


def test_shells_are_known_by_both_their_places(tmp_path: Path) -> None:
    entries = base_of(
        tmp_path,
        Package(
            name="debianutils",
            items=[
                Item(path="./usr/share/debianutils/shells", body=b"# comment\n/bin/sh\n"),
                Item(path="./usr/share/debianutils/shells.d/bash", body=b"/bin/bash # yes\n/usr/bin/dash\n"),
            ],
        ),
    )
    assert text(entries, "etc/shells").splitlines() == [
        "# comment",
        "/bin/sh",
        "/usr/bin/sh",
        "/bin/bash",
        "/usr/bin/bash",
        "/usr/bin/dash",
    ]


def test_apt_gets_the_sources_it_is_given_and_no_others(tmp_path: Path) -> None:
    deb = deb_of(tmp_path, Package())
    assert not any(entry.path.startswith("etc/apt") for entry in base_entries([deb]))
    given = {entry.path: entry for entry in base_entries([deb], apt_sources="Types: deb\n")}
    assert text(given, "etc/apt/sources.list.d/debian.sources") == "Types: deb\n"


def test_packages_without_md5sums_are_read_too(tmp_path: Path) -> None:
    package = Package(name="base-passwd", items=BASE_PASSWD.items, md5sums=False)
    assert "video:x:44:\n" in text(base_of(tmp_path, package), "etc/group")


def test_a_package_that_lists_what_it_has_not_is_refused(tmp_path: Path) -> None:
    package = Package(scripts={"md5sums": "0" * 32 + "  usr/lib/sysusers.d/none.conf\n"}, md5sums=False)
    with pytest.raises(FaultyInput, match=r"usr/lib/sysusers.d/none.conf: stands in md5sums"):
        base_of(tmp_path, package)


def test_no_path_is_a_packages_and_the_bases(tmp_path: Path) -> None:
    items = [Item(path="./bin", symlink="usr/bin"), Item(path="./var/"), Item(path="./var/run/"), Item(path="./etc/")]
    deb = deb_of(tmp_path, Package(name="base-files", items=items))
    packages = {entry.path: entry for entry in deb_entries(deb)}
    for entry in base_entries([deb]):
        assert entry.path not in packages or isinstance(entry, Directory)
