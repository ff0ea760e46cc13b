from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from envlock.errors import FaultyInput, MachineLacks
from envlock.fetch.apt import AptSettings
from envlock.fetch.http_settings import read_http_settings
from envlock.fetch.pip_config import ask_pip_for_its_index, pip_file_options, pip_files
from envlock.fetch.sources import IndexSettings, read_index_settings

CORP = "https://corp.example/simple"


class Machine:
    """A made-up machine: its root, a home, and where pip's site configuration would be."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.home = folder / "home"
        self.prefix = folder / "venv"
        self.home.mkdir()

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def read(self, environ: Mapping[str, str] | None = None, **flags: object) -> IndexSettings:
        return read_index_settings(
            environ or {},
            self.home,
            root=self.root,
            prefix=self.prefix,
            python="/no/python/here",
            **flags,  # type: ignore[arg-type]  # by name
        )

    def urls(self, environ: Mapping[str, str] | None = None, **flags: object) -> list[str]:
        return [index.url for index in self.read(environ, **flags).indexes]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_flag_wins_over_everything(machine: Machine) -> None:
    machine.write("etc/pip.conf", "[global]\nindex-url = https://file.example/simple\n")
    environ = {"UV_DEFAULT_INDEX": "https://uv.example", "PIP_INDEX_URL": "https://pip.example"}
    settings = machine.read(environ, index_url=CORP)
    assert [index.url for index in settings.indexes] == [CORP]
    assert settings.origin == "the command line"
    assert {place.name for place in settings.places} == {"default"}


@pytest.mark.parametrize(
    ("environ", "origin"),
    [
        (
            {"UV_DEFAULT_INDEX": CORP, "UV_INDEX_URL": "https://no.example", "PIP_INDEX_URL": "https://no.example"},
            "UV_",
        ),
        ({"UV_INDEX_URL": CORP, "PIP_INDEX_URL": "https://no.example"}, "UV_"),
        ({"PIP_INDEX_URL": CORP, "UV_DEFAULT_INDEX": ""}, "PIP_"),
        ({"PIP_PYPI_URL": CORP}, "PIP_"),
        ({"UV_DEFAULT_INDEX": f"corp={CORP}"}, "UV_"),
    ],
)
def test_variables_win_over_files(machine: Machine, environ: dict[str, str], origin: str) -> None:
    machine.write("home/.config/uv/uv.toml", 'index-url = "https://uv-file.example"')
    machine.write("etc/pip.conf", "[global]\nindex-url = https://pip-file.example\n")
    settings = machine.read(environ)
    assert [index.url for index in settings.indexes] == [CORP]
    assert origin in settings.origin


def test_uv_files_win_over_pip_files_and_the_users_over_the_systems(machine: Machine) -> None:
    machine.write("etc/pip.conf", "[global]\nindex-url = https://pip-file.example\n")
    assert machine.urls() == ["https://pip-file.example"]
    machine.write("etc/uv/uv.toml", 'index-url = "https://system.example"')
    assert machine.urls() == ["https://system.example"]
    file = machine.write("home/.config/uv/uv.toml", f'[[index]]\nurl = "{CORP}"\ndefault = true')
    assert machine.urls() == [CORP]
    assert machine.read().origin == str(file)
    assert machine.urls({"UV_NO_CONFIG": "1"}) == ["https://pip-file.example"]
    other = machine.write("other.toml", '[pip]\nindex-url = "https://pip-section.example"')
    assert machine.urls({"UV_CONFIG_FILE": str(other)}) == ["https://pip-section.example"]


def test_uv_indexes_come_before_the_default_one_and_pips_after_it(machine: Machine) -> None:
    machine.write(
        "home/.config/uv/uv.toml",
        """
        [[index]]
        name = "a"
        url = "https://a.example/simple"
        [[index]]
        name = "only-for-some"
        url = "https://explicit.example/simple"
        explicit = true
        [[index]]
        name = "flat"
        url = "./wheels"
        format = "flat"
        [[index]]
        url = "https://d.example/simple"
        default = true
        """,
    )
    settings = machine.read()
    assert [index.url for index in settings.indexes] == ["https://a.example/simple", "https://d.example/simple"]
    assert [place.url for place in settings.find_links] == [str(machine.home / ".config/uv/wheels")]
    pip = {"PIP_INDEX_URL": "https://d.example", "PIP_EXTRA_INDEX_URL": "https://x.example  https://y.example"}
    assert machine.urls(pip | {"UV_NO_CONFIG": "1"}) == [
        "https://d.example",
        "https://x.example",
        "https://y.example",
    ]
    uv = {
        "UV_DEFAULT_INDEX": "https://d.example",
        "UV_INDEX": f"corp={CORP}",
        "UV_EXTRA_INDEX_URL": "https://x.example",
    }
    assert machine.urls(uv) == [CORP, "https://x.example", "https://d.example"]


def test_a_named_uv_index_gets_its_credentials(machine: Machine) -> None:
    environ = {
        "UV_INDEX": f"my-corp={CORP}",
        "UV_INDEX_MY_CORP_USERNAME": "alice",
        "UV_INDEX_MY_CORP_PASSWORD": "p@ss",
        "PIP_INDEX_URL": "https://d.example",
    }
    settings = machine.read(environ)
    assert settings.indexes[0].url == "https://alice:p%40ss@corp.example/simple"
    assert "p%40ss" not in repr(settings)
    http = read_http_settings(environ, machine.home, indexes=settings)
    assert http.credentials == {"corp.example:443": ("alice", "p@ss")}


def test_each_setting_comes_from_its_own_highest_source(machine: Machine) -> None:
    machine.write(
        "etc/pip.conf",
        """
[global]
index-url = https://file.example/simple
extra-index-url =
    https://one.example/simple
    https://two.example/simple
find-links = ~/wheels relative
trusted-host = one.example
    two.example:8080
cert = /certs/ca.pem
client-cert = /certs/me.pem
proxy = http://proxy.example:3128
timeout = 42
constraint = /ignored.txt
""",
    )
    settings = machine.read({"PIP_INDEX_URL": CORP}, cwd=machine.root / "work")
    assert [index.url for index in settings.indexes] == [
        CORP,
        "https://one.example/simple",
        "https://two.example/simple",
    ]
    assert [place.url for place in settings.find_links] == [
        str(machine.home / "wheels"),
        str(machine.root / "work" / "relative"),
    ]
    assert settings.trusted_hosts == {"one.example", "two.example:8080"}
    assert (settings.cert, settings.client_cert) == (Path("/certs/ca.pem"), Path("/certs/me.pem"))
    http = read_http_settings({"https_proxy": "http://other"}, machine.home, indexes=settings)
    assert http.proxies == {"http": "http://proxy.example:3128", "https": "http://proxy.example:3128"}
    assert (http.read_timeout, http.ca_file, http.client_cert) == (42.0, settings.cert, settings.client_cert)


def test_the_same_index_twice_is_one(machine: Machine) -> None:
    environ = {"PIP_INDEX_URL": CORP, "PIP_EXTRA_INDEX_URL": f"{CORP}/ https://x.example"}
    assert machine.urls(environ) == [CORP, "https://x.example"]


@pytest.mark.parametrize("environ", [{"PIP_NO_INDEX": "1"}, {"PIP_NO_INDEX": "true", "PIP_INDEX_URL": CORP}])
def test_no_index_leaves_find_links_alone(machine: Machine, environ: dict[str, str]) -> None:
    settings = machine.read(environ | {"PIP_FIND_LINKS": "/wheels file:///more"})
    assert settings.indexes == ()
    assert [place.url for place in settings.places] == ["/wheels", "file:///more"]


@pytest.mark.parametrize(
    ("environ", "origin"),
    [
        ({"PIP_CERT": "/a", "SSL_CERT_FILE": "/b"}, "pip's variables (PIP_*)"),
        ({"SSL_CERT_FILE": "/a", "REQUESTS_CA_BUNDLE": "/b"}, "SSL_CERT_FILE"),
        ({"REQUESTS_CA_BUNDLE": "/a", "CURL_CA_BUNDLE": "/b"}, "REQUESTS_CA_BUNDLE"),
        ({"CURL_CA_BUNDLE": "/a"}, "CURL_CA_BUNDLE"),
    ],
)
def test_certificate_variables(machine: Machine, environ: dict[str, str], origin: str) -> None:
    machine.write("etc/pip.conf", "[global]\ncert = /file\n")
    settings = machine.read(environ | {"PIP_INDEX_URL": CORP})
    assert (settings.cert, settings.cert_origin) == (Path("/a"), origin)


def test_pips_files_override_each_other_as_pip_has_it(machine: Machine) -> None:
    def say(path: str, section: str = "global") -> None:
        machine.write(path, f"[{section}]\nindex_url = https://{path.replace('/', '-')}.example\n")

    def said(environ: dict[str, str] | None = None) -> str:
        (url,) = machine.urls(environ)
        return url.removeprefix("https://").removesuffix(".example")

    say("etc/xdg/pip/pip.conf")
    assert said() == "etc-xdg-pip-pip.conf"
    say("etc/pip.conf")
    assert said() == "etc-pip.conf"
    say("home/.pip/pip.conf")
    assert said() == "home-.pip-pip.conf"
    say("home/.config/pip/pip.conf")
    assert said() == "home-.config-pip-pip.conf"
    say("venv/pip.conf")
    assert said() == "venv-pip.conf"
    say("conda/pip.conf")
    assert said({"CONDA_PREFIX": str(machine.root / "conda")}) == "conda-pip.conf"
    say("etc/pip.conf", "install")
    assert said() == "etc-pip.conf"
    say("chosen.conf", "install")
    assert said({"PIP_CONFIG_FILE": str(machine.root / "chosen.conf")}) == "chosen.conf"


def test_a_chosen_pip_file_takes_the_users_place(machine: Machine) -> None:
    machine.write("etc/pip.conf", f"[global]\nindex-url = {CORP}\n")
    machine.write("home/.config/pip/pip.conf", "[global]\nextra-index-url = https://user.example\n")
    chosen = machine.write("chosen.conf", "[global]\n")
    assert machine.urls({"PIP_CONFIG_FILE": str(chosen)}) == [CORP]
    assert machine.urls({"PIP_CONFIG_FILE": "/not/there"}) == [CORP, "https://user.example"]
    with pytest.raises(MachineLacks) as caught:
        machine.read({"PIP_CONFIG_FILE": os.devnull})
    assert caught.value.code == "no-index"


def test_this_machines_configuration_reads_as_pip_reads_it() -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], env=environ, capture_output=True, text=True, check=True
    ).stdout
    files = pip_files(
        {name: value for name, value in environ.items() if name.startswith("XDG_")},
        Path.home(),
        root=Path("/"),
        prefix=Path(sys.prefix),
    )
    options, _ = pip_file_options(files)
    wanted = {}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        section, _, option = key.partition(".")
        if section == "global":
            wanted[option] = ast.literal_eval(value)
    assert {name: value for name, value in options.items() if name in wanted} == wanted


def test_pips_default_index_is_asked_of_pip_and_twice_the_same(tmp_path: Path) -> None:
    asked = ask_pip_for_its_index(sys.executable)
    assert asked.startswith("https://")
    # A pip whose inside has moved: only its help is left to read.
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nif [ "$2" = -c ]; then exit 1; fi\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    assert ask_pip_for_its_index(str(python)) == asked


@pytest.mark.parametrize(
    ("path", "text", "code"),
    [
        ("etc/pip.conf", "index-url = x\n", "pip-config-faulty"),
        ("home/.config/uv/uv.toml", "index-url = ", "uv-config-faulty"),
        ("home/.config/uv/uv.toml", "[[index]]\nname = 'x'", "uv-config-faulty"),
        ("home/.config/uv/uv.toml", "index = 3", "uv-config-faulty"),
        ("home/.config/uv/uv.toml", "find-links = 'x'", "uv-config-faulty"),
    ],
)
def test_faulty_files_are_named(machine: Machine, path: str, text: str, code: str) -> None:
    machine.write(path, text)
    with pytest.raises(FaultyInput, match=path.rpartition("/")[2]) as caught:
        machine.read({"PIP_INDEX_URL": CORP})
    assert caught.value.code == code


def test_proxies_come_from_the_environment(machine: Machine) -> None:
    indexes = machine.read({"PIP_INDEX_URL": CORP})
    environ = {
        "HTTPS_PROXY": "http://p:1",
        "http_proxy": "http://p:2",
        "no_proxy": "a, b.example",
        "ALL_PROXY": "http://p:3",
    }
    http = read_http_settings(environ, machine.home, indexes=indexes, offline=True)
    assert http.proxies == {"https": "http://p:1", "http": "http://p:2", "all": "http://p:3"}
    assert http.no_proxy == ("a", "b.example")
    assert http.offline


def test_netrc_is_read(machine: Machine) -> None:
    indexes = machine.read({"PIP_INDEX_URL": CORP})
    file = machine.write("home/.netrc", "machine Corp.example login alice password x\ndefault login d password d\n")
    file.chmod(0o600)
    assert read_http_settings({}, machine.home, indexes=indexes).credentials == {"corp.example": ("alice", "x")}
    other = machine.write("other", "machine corp.example login bob password y\n")
    http = read_http_settings({"NETRC": str(other)}, machine.home, indexes=indexes)
    assert http.credentials == {"corp.example": ("bob", "y")}
    other.write_text("nonsense here")
    with pytest.raises(FaultyInput) as caught:
        read_http_settings({"NETRC": str(other)}, machine.home, indexes=indexes)
    assert caught.value.code == "netrc-faulty"


def test_apts_proxy_and_credentials_are_for_the_archives_hosts(machine: Machine) -> None:
    apt = AptSettings(
        archives={"debian": ("http://deb.example/debian",), "debian-security": ("http://sec.example/s",)},
        proxies={"http": "http://cache:3142", "http://sec.example": "http://other:3142"},
        credentials={"deb.example:443": ("a", "b")},
    )
    http = read_http_settings({}, machine.home, indexes=machine.read({"PIP_INDEX_URL": CORP}), apt=apt)
    assert http.proxies == {"http://deb.example": "http://cache:3142", "http://sec.example": "http://other:3142"}
    assert http.credentials == {"deb.example:443": ("a", "b")}
