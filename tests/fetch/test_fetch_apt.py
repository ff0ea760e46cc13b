from __future__ import annotations

from pathlib import Path

import pytest

from envlock.errors import FaultyInput, MachineLacks
from envlock.fetch.apt import AptSettings, read_apt_archives
from envlock.fetch.locate import deb_urls

MAIN = "http://mirror.example/debian"
SECURITY = "http://mirror.example/debian-security"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Machine:
    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str) -> Path:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def sources(self, text: str, name: str = "sources.list.d/debian.sources") -> AptSettings:
        self.write(f"etc/apt/{name}", text)
        return read_apt_archives({}, self.root)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def archives(settings: AptSettings) -> dict[str, tuple[str, ...]]:
    return dict(settings.archives)


def test_one_line_sources(machine: Machine) -> None:
    settings = machine.sources(
        f"""
# deb http://commented.example/debian trixie main
deb [ arch=amd64,arm64 signed-by={KEYRING} ] {MAIN}/ bookworm main contrib # the archive
deb {MAIN} bookworm-updates main
deb-src http://sources.example/debian bookworm main
deb {SECURITY} bookworm-security main
deb cdrom:[Debian]/ bookworm main
""",
        "sources.list",
    )
    assert archives(settings) == {"debian": (MAIN,), "debian-security": (SECURITY,)}


def test_old_names_of_the_security_suite(machine: Machine) -> None:
    settings = machine.sources(f"deb {MAIN} bullseye main\ndeb {SECURITY} bullseye/updates main\n", "sources.list")
    assert archives(settings) == {"debian": (MAIN,), "debian-security": (SECURITY,)}


def test_deb822_sources(machine: Machine) -> None:
    settings = machine.sources(
        f"""
# a comment
Types: deb deb-src
URIs: {MAIN}/
  http://second.example/debian
Suites: bookworm bookworm-updates
Components: main
Architectures: amd64
Signed-By: {KEYRING}

Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
Enabled: no
Signed-By: {KEYRING}

Types: deb
uris: {SECURITY}
suites: bookworm-security
components: main
Signed-By:
  {KEYRING}
"""
    )
    assert archives(settings) == {
        "debian": (MAIN, "http://second.example/debian"),
        "debian-security": (SECURITY,),
    }


def test_an_inline_key(machine: Machine) -> None:
    settings = machine.sources(
        f"""Types: deb
URIs: {MAIN}
Suites: trixie
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEY865UxYJKwYBBAHaRw8BAQdAd7Z0srwuhlB6JKFkcf4HU4SSS/xcRfwEQWzr
 =abcd
 -----END PGP PUBLIC KEY BLOCK-----
"""
    )
    assert archives(settings)["debian"] == (MAIN,)
    assert settings.keys == (
        """-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEY865UxYJKwYBBAHaRw8BAQdAd7Z0srwuhlB6JKFkcf4HU4SSS/xcRfwEQWzr
=abcd
-----END PGP PUBLIC KEY BLOCK-----
""",
    )


def test_third_parties_that_use_debians_suite_names_are_not_taken_for_debian(machine: Machine) -> None:
    machine.write(
        "etc/apt/sources.list.d/a.list",
        "deb [signed-by=/etc/apt/keyrings/a.gpg] https://a.example/debian bookworm main\n"
        "deb https://b.example/linux/debian bookworm stable\n"
        "deb https://c.example/apt bookworm-pgdg main\n"
        "deb https://d.example/tool bookworm main\n",
    )
    settings = machine.sources(
        f"deb {MAIN} bookworm main\ndeb {MAIN} bookworm-updates main\ndeb {SECURITY} bookworm-security main\n",
        "sources.list",
    )
    assert archives(settings) == {"debian": (MAIN,), "debian-security": (SECURITY,)}


def test_a_host_without_debian_names_no_mirror_and_says_what_to_write(machine: Machine) -> None:
    settings = machine.sources(
        "deb http://ubuntu.example/ubuntu noble main universe\n"
        "deb [signed-by=/k.gpg] https://tool.example/apt bookworm main\n",
        "sources.list",
    )
    with pytest.raises(MachineLacks, match="no mirror of the debian archive") as caught:
        settings.urls("debian")
    assert caught.value.code == "no-debian-mirror"
    assert "[base]" in caught.value.hint
    assert "--debian-mirror" in caught.value.hint


def test_no_configuration_at_all_is_an_error_only_when_asked_for(machine: Machine) -> None:
    settings = read_apt_archives({}, machine.root)
    with pytest.raises(MachineLacks):
        settings.urls("debian-security")


def test_the_mirror_of_spec_or_flag_wins(machine: Machine) -> None:
    machine.sources(f"deb {MAIN} bookworm main\ndeb {SECURITY} bookworm-security main\n", "sources.list")
    settings = read_apt_archives({}, machine.root, mirror="https://fast.example/debian/")
    assert archives(settings) == {
        "debian": ("https://fast.example/debian",),
        "debian-security": ("https://fast.example/debian-security", SECURITY),
    }


def test_a_security_archive_that_is_not_configured_is_looked_for_beside_the_main_one(machine: Machine) -> None:
    settings = machine.sources(f"deb {MAIN} trixie main\n", "sources.list")
    assert settings.urls("debian-security") == (SECURITY,)


def test_a_mirror_list_in_a_file(machine: Machine) -> None:
    machine.write(
        "etc/apt/mirrors/debian.list", f"# nearest first\n{MAIN}\tpriority:1\nhttps://other.example/debian\n"
    )
    settings = machine.sources(
        "Types: deb\nURIs: mirror+file:///etc/apt/mirrors/debian.list\nSuites: trixie\nComponents: main\n"
    )
    assert settings.urls("debian") == (MAIN, "https://other.example/debian")


def test_keyrings_that_exist(machine: Machine) -> None:
    keyring = machine.write(KEYRING, "key")
    own = machine.write("/etc/apt/keyrings/mirror.gpg", "key")
    machine.write("/etc/apt/trusted.gpg.d/other.gpg", "key")
    settings = machine.sources(
        f"Types: deb\nURIs: {MAIN}\nSuites: trixie\nComponents: main\n"
        "Signed-By: /etc/apt/keyrings/mirror.gpg /etc/apt/keyrings/none.gpg\n"
    )
    assert settings.keyrings == (own, keyring)


def test_a_source_without_a_key_is_trusted_by_apts_own_keys(machine: Machine) -> None:
    keyring = machine.write(KEYRING, "key")
    trusted = machine.write("/etc/apt/trusted.gpg.d/debian.asc", "key")
    machine.write("/etc/apt/trusted.gpg", "")
    assert machine.sources(f"deb {MAIN} trixie main\n", "sources.list").keyrings == (keyring, trusted)


def test_apts_proxies_and_credentials(machine: Machine) -> None:
    machine.write(
        "/etc/apt/apt.conf.d/80proxy",
        """
# Acquire::http::Proxy "http://hash.example";
// Acquire::http::Proxy "http://slashes.example";
/* Acquire::http::Proxy
   "http://stars.example"; */
APT::NeverAutoRemove { "^linux-image.*"; };
acquire::http { Proxy "http://cache.example:3142"; Proxy::local.example "DIRECT"; };
Acquire { Retries "3"; https { Proxy { far.example "http://other.example:8080/"; } } }
Acquire::Languages { "none"; };
""",
    )
    machine.write("/etc/apt/auth.conf.d/mirror.conf", "machine https://deb.example/debian login me password pw\n")
    chosen = machine.write("/chosen.conf", 'Acquire::https::Proxy "http://env.example:1";')
    settings = read_apt_archives({"APT_CONFIG": str(chosen)}, machine.root)
    assert settings.proxies == {
        "http": "http://cache.example:3142",
        "https://far.example": "http://other.example:8080/",
        "https": "http://env.example:1",
    }
    assert settings.credentials == {"deb.example:443": ("me", "pw")}


def test_urls_of_a_package() -> None:
    apt = AptSettings(archives={"debian": (MAIN, "https://b.example/debian")})
    pool = "pool/main/g/gcc-14/libstdc++6_14.2.0-19+b~1_amd64.deb"
    assert list(deb_urls(pool, "debian", apt)) == [f"{MAIN}/{pool}", f"https://b.example/debian/{pool}"]
    with pytest.raises(MachineLacks):
        list(deb_urls(pool, "debian-security", apt))


@pytest.mark.parametrize("pool", ["/etc/passwd", "pool/../../x", ""])
def test_a_pool_path_that_leaves_the_archive_is_refused(pool: str) -> None:
    with pytest.raises(FaultyInput):
        list(deb_urls(pool, "debian", AptSettings(archives={"debian": (MAIN,)})))
