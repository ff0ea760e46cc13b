from __future__ import annotations

from pathlib import Path

import pytest
from signed_archive import SigningKey, signing_key

from envlock.errors import EnvlockError, FaultyInput, MachineLacks
from envlock.lock.debian.signature import Trust, verified_text

TEXT = "Suite: stable\n- a line that is escaped\nCodename: trixie\n"


def trust(key: SigningKey) -> Trust:
    return Trust(keyrings=(key.keyring,))


def fault(signed: bytes, trusted: Trust) -> EnvlockError:
    with pytest.raises(EnvlockError) as caught:
        verified_text(signed, trusted, origin="Debian suite trixie")
    assert caught.value.message.startswith("Debian suite trixie: ") or caught.value.code == "gpgv-missing"
    return caught.value


def test_the_signed_text_comes_back_as_it_was_written(key: SigningKey) -> None:
    assert verified_text(key.clearsign(TEXT), trust(key), origin="x") == TEXT


def test_an_armoured_keyring_and_a_key_in_text_serve_too(key: SigningKey, tmp_path: Path) -> None:
    armoured = tmp_path / "archive.asc"
    armoured.write_text("a comment before the key\n" + key.armoured)
    signed = key.clearsign(TEXT)
    assert verified_text(signed, Trust(keyrings=(armoured,)), origin="x") == TEXT
    assert verified_text(signed, Trust(keys=(key.armoured,)), origin="x") == TEXT


def test_one_known_key_among_several_signers_is_enough(key: SigningKey) -> None:
    with signing_key(name="Newcomer") as newcomer:
        newcomer.take_in(key)
        signed = newcomer.clearsign(TEXT, "--local-user", "Test Archive", "--local-user", "Newcomer")
        assert verified_text(signed, trust(key), origin="x") == TEXT
        assert verified_text(signed, trust(newcomer), origin="x") == TEXT


def test_a_changed_text_is_refused(key: SigningKey) -> None:
    signed = key.clearsign(TEXT).replace(b"trixie", b"potato")
    assert fault(signed, trust(key)).code == "debian-signature-bad"


def test_text_around_the_signed_part_is_refused(key: SigningKey) -> None:
    signed = key.clearsign(TEXT)
    for around in (b"Codename: evil\n" + signed, signed + b"Codename: evil\n", signed + signed):
        assert fault(around, trust(key)).code == "debian-signature-bad"


@pytest.mark.parametrize("signed", [b"", b"Suite: stable\n", b"-----BEGIN PGP SIGNED MESSAGE-----\n\n"])
def test_what_is_not_signed_is_refused(key: SigningKey, signed: bytes) -> None:
    assert isinstance(fault(signed, trust(key)), FaultyInput)


def test_a_cut_off_signature_is_refused(key: SigningKey) -> None:
    signed = key.clearsign(TEXT)
    head, mark, _ = signed.partition(b"-----BEGIN PGP SIGNATURE-----")
    assert fault(head, trust(key)).code == "debian-signature-bad"
    empty = head + mark + b"\n\n=twTO\n-----END PGP SIGNATURE-----\n"
    assert fault(empty, trust(key)).code == "debian-signature-bad"


def test_an_unknown_key_asks_for_a_newer_keyring(key: SigningKey) -> None:
    with signing_key(name="Stranger") as stranger:
        found = fault(stranger.clearsign(TEXT), trust(key))
    assert isinstance(found, MachineLacks)
    assert found.code == "debian-key-unknown"
    assert "debian-archive-keyring" in found.hint


def test_an_expired_key_signs_nothing() -> None:
    with signing_key(created="20200101T000000", expires="2020-02-01") as old:
        assert fault(old.clearsign(TEXT), trust(old)).code == "debian-signature-expired"


def test_a_weak_hash_is_no_signature() -> None:
    with signing_key(name="Weak", algorithm="rsa2048") as key:
        signed = key.clearsign(TEXT, "--digest-algo", "SHA1")
        assert b"Hash: SHA1" in signed
        assert fault(signed, trust(key)).code == "debian-signature-bad"


def test_without_a_keyring_the_package_to_install_is_named(key: SigningKey, tmp_path: Path) -> None:
    found = fault(key.clearsign(TEXT), Trust(keyrings=(tmp_path / "absent.gpg",)))
    assert found.code == "debian-keyring-missing"
    assert "apt-get install debian-archive-keyring" in found.hint


def test_without_gpgv_the_package_to_install_is_named(key: SigningKey, monkeypatch: pytest.MonkeyPatch) -> None:
    signed = key.clearsign(TEXT)
    monkeypatch.setenv("PATH", "/nowhere")
    found = fault(signed, trust(key))
    assert isinstance(found, MachineLacks)
    assert (found.code, found.hint) == ("gpgv-missing", "Install it (apt-get install gpgv).")


def test_a_damaged_key_is_told(key: SigningKey, tmp_path: Path) -> None:
    broken = tmp_path / "archive.asc"
    broken.write_text(key.armoured.replace("\n\n", "\n\n!", 1))
    with pytest.raises(FaultyInput, match=r"archive\.asc: the armoured key is damaged") as caught:
        verified_text(key.clearsign(TEXT), Trust(keyrings=(broken,)), origin="x")
    assert caught.value.code == "debian-keyring-faulty"
