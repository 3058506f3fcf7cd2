"""Settings: sources, order, and sentences for what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from app.settings import EMBEDDED, BadSetting, Device, Engine, Settings
from app.web.server import check_access
from index.engines.open import EMBEDDED as ENGINES_HERE
from model.embedding import embedder


def test_later_sources_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "face.toml"
    file.write_text('port = 1000\nhost = "::1"\ntarget_fmr = 1e-3\npublic_names = ["a.test"]\n')
    monkeypatch.setenv("FACE_PORT", "2000")
    monkeypatch.setenv("FACE_AUDIT", "off")
    monkeypatch.setenv("FACE_QUEUE", "")
    monkeypatch.setenv("FACE_BUNDLE", "~/bundle")
    monkeypatch.setenv("FACE_DATA", str(tmp_path / "from-environment"))
    settings = Settings.load(file, data=tmp_path / "option", host=None)
    assert (settings.port, settings.host, settings.target_fmr) == (2000, "::1", 1e-3)
    assert settings.data == tmp_path / "option"
    assert settings.audit is False
    assert (settings.queue, settings.bundle) == (32, Path.home() / "bundle")
    assert settings.public_names == ("a.test",)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FACE_PORT", "70000"),
        ("FACE_PORT", "many"),
        ("FACE_TARGET_FMR", "0"),
        ("FACE_TARGET_FMR", "nan"),
        ("FACE_WORKERS", "0"),
        ("FACE_QUEUE", "-1"),
        ("FACE_AUDIT", "perhaps"),
        ("FACE_ENGINE", "foo"),
        ("FACE_DEVICE", "tpu"),
        ("FACE_GALLERY", "mysql://host/name"),
        ("FACE_GALLERY_SECRETS", "postgresql://host/name"),
        ("FACE_INDEX", "nonsense"),
        ("FACE_INDEX", "milvus://host:many/faces"),
    ],
)
def test_a_wrong_value_is_named(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(BadSetting, match=name.removeprefix("FACE_").lower()):
        Settings.load()


def test_the_choices_are_those_that_model_and_index_offer() -> None:
    assert (get_args(Engine), get_args(Device)) == (embedder.ENGINES, embedder.DEVICES)
    assert EMBEDDED == ENGINES_HERE
    for address in (*EMBEDDED, "milvus://host:19530/faces", "milvus-lite:/path/file.db"):
        assert Settings(index=address).index == address


def test_an_address_that_may_hold_a_password_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FACE_GALLERY", "mysql://user:secret@host/name")
    with pytest.raises(BadSetting) as raised:
        Settings.load()
    assert "secret" not in str(raised.value)
    assert raised.value.__suppress_context__


def test_names_in_the_environment_are_split_at_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACE_PUBLIC_NAMES", "a.test, b.test")
    assert Settings.load().public_names == ("a.test", "b.test")


def test_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "face.toml"
    file.write_text("prot = 1\n")
    with pytest.raises(BadSetting, match="prot"):
        Settings.load(file)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"missing\.toml"):
        Settings.load(tmp_path / "missing.toml")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.5", False),
        ("face.example", False),
        ("127.0.0.1.evil.example", False),
    ],
)
def test_what_counts_as_this_machine(host: str, loopback: bool) -> None:
    assert Settings(host=host).loopback is loopback


def test_the_data_folder_is_for_its_owner_only(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "a" / "b")
    settings.prepare()
    assert settings.data.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("folder", ["/proc", "/proc/none", __file__, __file__ + "/none"])
def test_a_data_folder_that_cannot_be_used_is_named(folder: str) -> None:
    with pytest.raises(BadSetting, match=f"{folder}.*--data"):
        Settings(data=Path(folder)).prepare()


def test_a_proxy_on_this_machine_makes_the_server_public() -> None:
    assert Settings().private
    assert not Settings(behind_proxy=True).private
    assert not Settings(host="0.0.0.0").private
    with pytest.raises(BadSetting, match="keys add"):
        check_access(Settings(behind_proxy=True, data=Path("nowhere")))
