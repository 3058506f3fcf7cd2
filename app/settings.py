"""All settings of the app. Later sources win: defaults, TOML file, environment, options.

A setting ``max_pixels`` is written ``max_pixels = ...`` in the file and ``FACE_MAX_PIXELS`` in
the environment.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import tempfile
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from index.engines.milvus.address import MilvusAddress
from index.gallery.connect import check_address
from model.errors import FaceError

BUNDLE = Path(__file__).parents[1] / "model" / "bundles" / "default"

CHOICES = {
    "engine": ("auto", "torch", "onnxruntime", "onnxruntime-int8"),
    "device": ("auto", "cpu", "cuda", "mps"),
    "batching": ("auto", "on", "off"),
}
"""Allowed values of settings with a fixed set of choices."""

EMBEDDED = ("auto", "faiss")
"""Values of ``index`` that are not a URL."""


class BadSetting(FaceError):
    """A setting is unknown, or has a value that is not allowed."""

    code = "bad_setting"


def _data_home() -> Path:
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "face-verification"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How the app runs.

    Attributes:
        data: Folder of the gallery, its index, keys, own calibrations and audit log; owner only.
        bundle: Folder of the model bundle.
        engine: ``auto``, ``torch``, ``onnxruntime`` or ``onnxruntime-int8``.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        gallery: ``postgresql://user@host/name`` for a gallery that several servers share; empty
            for a SQLite file in ``data``.
        gallery_secrets: A separate PostgreSQL database for the gallery's secrets, so that restoring
            a backup of ``gallery`` does not restore people erased since; empty for none.
        index: ``faiss`` for the embedded index, or ``milvus://host:19530/collection``.
        gallery_key_file: File with the key that encrypts the gallery at rest, or None. The
            environment variable ``FACE_GALLERY_KEY`` may hold the key itself instead.
        target_fmr: Default target false-match rate of a verification.
        target_fpir: Default target of a search: the chance that a stranger matches anyone.
        min_quality: Quality score below which a photo is enrolled only if a reason is given.
        keep_thumbnails: Store the aligned crop of each enrolled photo, to show it again.
        host: Address to serve on. Addresses other than loopback need keys.
        port: Port to serve on; 0 takes a free one.
        public_names: Further host names of the server, when it is not on loopback only.
        behind_proxy: Trust ``X-Forwarded-For`` from a proxy on this machine.
        max_upload_bytes: Largest photo accepted, in bytes.
        max_request_bytes: Largest request accepted, in bytes.
        max_pixels: Largest photo accepted, width times height.
        max_photos: Most photos in one request.
        max_faces: Most faces processed per photo, largest first.
        workers: Requests processed at once.
        queue: Requests that may wait for a worker; further ones are refused.
        queue_seconds: Longest wait for a worker, in seconds.
        upload_seconds: Longest time for a whole request to arrive, in seconds.
        rate_per_minute: Requests per minute for each key and each address; 0 for no limit.
        batching: Combine the crops of concurrent requests into one run of the network: ``on``,
            ``off``, or ``auto`` (only on a GPU; on a CPU, concurrent small runs are faster).
        audit: Write the audit log.
        own_photos: The only folder that "calibrate on my own photos" may read, or None.
    """

    data: Path = dataclasses.field(default_factory=_data_home)
    bundle: Path = BUNDLE
    engine: str = "auto"
    device: str = "auto"
    gallery: str = ""
    gallery_secrets: str = ""
    index: str = "faiss"
    gallery_key_file: Path | None = None
    target_fmr: float = 1e-4
    target_fpir: float = 1e-2
    min_quality: float = 0.25
    keep_thumbnails: bool = True
    host: str = "127.0.0.1"
    port: int = 7860
    public_names: tuple[str, ...] = ()
    behind_proxy: bool = False
    max_upload_bytes: int = 20_000_000
    max_request_bytes: int = 50_000_000
    max_pixels: int = 50_000_000
    max_photos: int = 50
    max_faces: int = 40
    workers: int = 4
    queue: int = 32
    queue_seconds: float = 20.0
    upload_seconds: float = 120.0
    rate_per_minute: int = 600
    batching: str = "auto"
    audit: bool = True
    own_photos: Path | None = None

    def __post_init__(self) -> None:
        _check(self)

    @classmethod
    def load(cls, file: str | os.PathLike[str] | None = None, /, **options: Any) -> Settings:
        """Read the settings; later sources win: file, environment, ``options`` that are not None.

        Args:
            file: A TOML file; by default the one named by ``FACE_SETTINGS``, if set.
            **options: Settings by name.

        Raises:
            BadSetting: A name is unknown or a value is not allowed.
        """
        values: dict[str, Any] = {}
        file = file or os.environ.get("FACE_SETTINGS")
        if file:
            values |= _read_toml(Path(file))
        values |= _from_environment(os.environ)
        values |= {name: value for name, value in options.items() if value is not None}
        kinds = typing.get_type_hints(cls)
        for name in values:
            if name not in kinds:
                raise BadSetting(f"There is no setting {name!r}. Known: {', '.join(kinds)}.")
        return cls(**{name: _convert(name, value, kinds[name]) for name, value in values.items()})

    @property
    def private(self) -> bool:
        """Whether only this machine's users can reach the server.

        False behind a proxy, because a proxy forwards requests from anywhere.
        """
        return self.loopback and not self.behind_proxy

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach ``host``."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False

    @property
    def keys_file(self) -> Path:
        return self.data / "keys.json"

    @property
    def audit_file(self) -> Path:
        return self.data / "audit.jsonl"

    @property
    def gallery_folder(self) -> Path:
        return self.data / "gallery"

    @property
    def active_calibration(self) -> Path:
        """File of the calibration that a user activated."""
        return self.data / "calibrations" / "active.json"

    def prepare(self) -> None:
        """Create the data folder, readable by its owner only.

        Raises:
            BadSetting: It cannot be created or written to.
        """
        try:
            self.data.mkdir(parents=True, exist_ok=True, mode=0o700)
            tempfile.TemporaryFile(dir=self.data).close()
        except OSError as error:
            raise BadSetting(
                f"The data folder {str(self.data)!r} cannot be used: {error.strerror}. Choose "
                "another with --data."
            ) from error


def _check(settings: Settings) -> None:
    if not 0 <= settings.port <= 65535:
        raise BadSetting(f"port is {settings.port}; it must be between 0 and 65535.")
    for name in ("target_fmr", "target_fpir"):
        value = getattr(settings, name)
        if not 0 < value < 1:
            raise BadSetting(f"{name} is {value}; it must lie between 0 and 1.")
    for name in ("max_upload_bytes", "max_request_bytes", "max_pixels", "max_photos", "max_faces",
                 "workers"):  # fmt: skip
        if getattr(settings, name) < 1:
            raise BadSetting(f"{name} is {getattr(settings, name)}; it must be at least 1.")
    for name, allowed in CHOICES.items():
        value = getattr(settings, name)
        if value not in allowed:
            raise BadSetting(f"{name} is {value!r}; it must be one of {', '.join(allowed)}.")
    for name in ("queue", "queue_seconds", "rate_per_minute", "upload_seconds"):
        if getattr(settings, name) < 0:
            raise BadSetting(f"{name} is {getattr(settings, name)}; it must not be negative.")
    for name in ("gallery", "gallery_secrets"):
        try:
            if address := getattr(settings, name):
                check_address(address)
        except ValueError as error:
            raise BadSetting(f"{name} is not usable: {error}.") from error
    if settings.gallery_secrets and not settings.gallery:
        raise BadSetting("gallery_secrets is for a gallery in PostgreSQL; set gallery as well.")
    if settings.index not in EMBEDDED:
        try:
            MilvusAddress.parse(settings.index)
        except ValueError as error:
            raise BadSetting(f"index is not usable: {error}.") from error


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadSetting(f"The settings file {file} cannot be read: {error}") from error


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    names = (field.name for field in dataclasses.fields(Settings))
    found = ((name, environment.get(f"FACE_{name.upper()}")) for name in names)
    return {name: value for name, value in found if value}


def _convert(name: str, value: Any, kind: Any) -> Any:
    try:
        if kind in (Path, Path | None):
            return Path(value).expanduser().absolute()
        if kind is bool:
            return _to_bool(value)
        if kind == tuple[str, ...]:
            parts = value.split(",") if isinstance(value, str) else value
            return tuple(str(part).strip() for part in parts)
        return kind(value)
    except (TypeError, ValueError) as error:
        wanted = getattr(kind, "__name__", str(kind))
        raise BadSetting(f"{name} is {value!r}, which is no {wanted}.") from error


def _to_bool(value: Any) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True,
             "0": False, "false": False, "no": False, "off": False}  # fmt: skip
    if isinstance(value, bool):
        return value
    if str(value).lower() not in words:
        raise ValueError(value)
    return words[str(value).lower()]
