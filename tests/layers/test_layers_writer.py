from __future__ import annotations

import hashlib
import io
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import deflate
import pytest
from reading import layer_of

from envlock.errors import MachineLacks
from envlock.image.layers.entries import Directory, Entry, File, Hardlink, Symlink
from envlock.image.layers.gzip_members import HEAD, encode_member, require_encoder
from envlock.image.layers.writer import ENCODER, write_layer

NOISE = hashlib.shake_256(b"noise").digest(3_000_000)
TEXT = b"".join(b"line %d of a text that packs well\n" % number for number in range(60_000))


def deflated(data: bytes) -> bytes:
    """A raw deflate stream, the same on every machine, and not as the writer would have made it."""
    return bytes(deflate.deflate_compress(data, 9))


@dataclass(frozen=True)
class Deflated:
    """A DeflatedBody in pieces of `step` deflated bytes."""

    data: bytes
    step: int = 1000

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def crc32(self) -> int:
        return zlib.crc32(self.data)

    def pieces(self) -> Iterator[tuple[bytes, bytes]]:
        raw, inflater = deflated(self.data), zlib.decompressobj(-15)
        for at in range(0, len(raw), self.step):
            yield raw[at : at + self.step], inflater.decompress(raw[at : at + self.step])


@dataclass(frozen=True)
class Streamed:
    """A StreamedBody in chunks of `step` bytes."""

    data: bytes
    step: int = 1000

    @property
    def size(self) -> int:
        return len(self.data)

    def chunks(self) -> Iterator[bytes]:
        return (self.data[at : at + self.step] for at in range(0, len(self.data), self.step))


def members_of(raw: bytes) -> list[bytes]:
    """The members of a gzip file, each inflated; their heads are checked."""
    found = []
    while raw:
        assert raw.startswith(HEAD)
        inflater = zlib.decompressobj(31)
        found.append(inflater.decompress(raw))
        assert inflater.eof
        raw = inflater.unused_data
    return found


def some_entries() -> list[Entry]:
    return [
        Directory(path="opt"),
        File(path="opt/a", body=b"small"),
        File(path="opt/b", body=Deflated(TEXT)),
        File(path="opt/c", body=Streamed(NOISE), mode=0o755),
        File(path="opt/d", body=Deflated(b"")),
        Symlink(path="opt/e", target="a"),
        Hardlink(path="opt/f", target="opt/a"),
    ]


def test_entries_come_out_as_they_went_in() -> None:
    layer = layer_of(some_entries())
    files = layer.files()
    assert {path: files[path] for path in ("opt/a", "opt/b", "opt/c", "opt/d")} == {
        "opt/a": b"small",
        "opt/b": TEXT,
        "opt/c": NOISE,
        "opt/d": b"",
    }
    assert [member.name for member in layer.members()] == ["opt", *(f"opt/{name}" for name in "abcdef")]


def test_the_bytes_of_a_layer_are_the_ones_this_format_version_has_always_had() -> None:
    # If this fails, digests of layers change for everybody: raise FORMAT_VERSION, and mean it.
    layer = layer_of(some_entries())
    assert layer.blob.diff_id.hex == "2137e8a7274e235343c935ee1d8fa45e68af91dbdf1a3973f3af5b050b01de35"
    assert layer.blob.digest.hex == "b8fb576f70a4c846a188852cfd6b1dc8cdc1dd742c23afd129ec9d0eb5c732b7"


def test_deflate_bytes_are_copied_as_they_are() -> None:
    layer = layer_of([File(path="a", body=Deflated(TEXT, step=777))])
    member = HEAD + deflated(TEXT) + zlib.crc32(TEXT).to_bytes(4, "little") + len(TEXT).to_bytes(4, "little")
    assert member in layer.raw


def test_how_a_body_is_cut_does_not_show() -> None:
    cuts = [
        layer_of([File(path="a", body=Deflated(TEXT, step)), File(path="b", body=Streamed(NOISE, step))]).raw
        for step in (100, 4096, 10**7)
    ]
    assert len(set(cuts)) == 1
    plain = layer_of([File(path="b", body=NOISE)]).raw
    assert plain == layer_of([File(path="b", body=Streamed(NOISE))]).raw


def test_our_own_bytes_are_encoded_in_pieces_of_a_mebibyte_and_the_end_by_itself() -> None:
    layer = layer_of([File(path="a", body=NOISE)])
    sizes = [len(member) for member in members_of(layer.raw)]
    assert sizes == [1 << 20, 1 << 20, 512 + 3_000_000 + 320 - 2 * (1 << 20), 1024]


def test_small_deflated_bodies_are_encoded_among_our_own_bytes() -> None:
    layer = layer_of([File(path="a", body=Deflated(TEXT[:8192])), File(path="b", body=Deflated(TEXT[:8193]))])
    assert [len(member) for member in members_of(layer.raw)] == [512 + 8192 + 512, 8193, 511, 1024]


def test_a_segment_begins_where_paths_stop_ascending_and_is_encoded_on_its_own() -> None:
    one: list[Entry] = [
        Directory(path="opt"),
        File(path="opt/a", body=b"1" * 500),
        File(path="opt/b", body=Deflated(TEXT)),
    ]
    two: list[Entry] = [Directory(path="opt"), File(path="opt/c", body=b"2" * 500)]
    three: list[Entry] = [Directory(path="opt"), File(path="opt/d", body=b"3" * 700)]
    end = layer_of([]).raw
    alone = [layer_of(segment).raw.removesuffix(end) for segment in (one, two, three)]
    assert layer_of([*one, *two, *three]).raw == b"".join(alone) + end
    assert layer_of([*two, *three]).raw == b"".join(alone[1:]) + end


def test_order_is_that_of_bytes() -> None:
    layer = layer_of([File(path=path, body=b"x") for path in ("a", "a-b", "a/b", "é", "ヾ", "🐍")])
    assert len(members_of(layer.raw)) == 2


def test_gnu_tar_and_gzip_read_a_layer(tmp_path: Path) -> None:
    file = tmp_path / "layer.tar.gz"
    file.write_bytes(layer_of(some_entries()).raw)
    subprocess.run(["gzip", "-t", file], check=True)
    subprocess.run(["tar", "-C", tmp_path, "--no-same-owner", "-xzf", file], check=True)
    assert (tmp_path / "opt/b").read_bytes() == TEXT
    assert (tmp_path / "opt/f").samefile(tmp_path / "opt/a")
    assert (tmp_path / "opt/e").readlink() == Path("a")


def test_two_entries_of_one_path_are_refused_unless_they_are_directories() -> None:
    layer_of([Directory(path="a"), Directory(path="a")])
    with pytest.raises(ValueError, match="two entries for 'a'"):
        layer_of([File(path="a", body=b""), Symlink(path="a", target="b")])


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_body_that_is_shorter_than_it_said_is_refused(size: int) -> None:
    @dataclass(frozen=True)
    class Short(Streamed):
        @property
        def size(self) -> int:
            return len(self.data) + 1

    with pytest.raises(ValueError, match=f"not {size + 1} bytes long"):
        write_layer([File(path="a", body=Short(b"x" * size))], io.BytesIO())


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, (1 << 20) - 512, 1 << 20, (1 << 20) + 1])
def test_bodies_of_every_kind_are_padded_to_blocks(size: int) -> None:
    data = NOISE[:size]
    layer = layer_of(
        [File(path="a", body=data), File(path="b", body=Streamed(data)), File(path="c", body=Deflated(data))]
    )
    assert layer.files() == {"a": data, "b": data, "c": data}
    assert layer.blob.unpacked == 3 * (512 + -(-size // 512) * 512) + 1024


def test_a_member_is_a_gzip_file_with_nothing_but_its_bytes_in_it() -> None:
    for data in (b"", b"x", TEXT, NOISE):
        raw = encode_member(data)
        assert zlib.decompress(raw, 31) == data
        assert raw[:10] == bytes([31, 139, 8, 0, 0, 0, 0, 0, 0, 255])


def test_another_encoder_is_refused() -> None:
    assert ENCODER == "libdeflate-1.26/6"

    def other(data: bytes, level: int) -> bytes:
        return zlib.compress(data, level)

    with pytest.raises(MachineLacks, match=r"does not encode as libdeflate-1\.26/6 does") as caught:
        require_encoder(other)
    assert caught.value.code == "encoder-differs"
