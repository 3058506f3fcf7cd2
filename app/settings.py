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
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic.dataclasses import dataclass

from index.engines.milvus.address import MilvusAddress
from index.gallery.connect import check_address
from model.errors import FaceError

BUNDLE = Path(__file__).parents[1] / "model" / "bundles" / "default"

EMBEDDED = ("auto", "faiss")
"""Values of ``index`` that are not a URL."""


class BadSetting(FaceError):
    """A setting is unknown, or has a value that is not allowed."""

    code = "bad_setting"


def _data_home() -> Path:
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "face-verification"


def _check_gallery(address: str) -> str:
    if address:
        check_address(address)
    return address


def _check_index(address: str) -> str:
    if address not in EMBEDDED:
        MilvusAddress.parse(address)
    return address


def _split_names(value: Any) -> Any:
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


Engine = Literal["auto", "fp32", "torch", "onnxruntime", "onnxruntime-int8"]
Device = Literal["auto", "cpu", "cuda", "mps"]
Folder = Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())]
GalleryAddress = Annotated[str, AfterValidator(_check_gallery)]
IndexAddress = Annotated[str, AfterValidator(_check_index)]
Names = Annotated[tuple[str, ...], BeforeValidator(_split_names)]
Share = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How the app runs.

    Attributes:
        data: Folder of the gallery, its index, keys, own calibrations and audit log; owner only.
        bundle: Folder of the model bundle.
        engine: ``auto``, ``fp32`` (never int8), ``torch``, ``onnxruntime`` or
            ``onnxruntime-int8``.
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
        audit: Write the audit log.
        own_photos: The only folder that "calibrate on my own photos" may read, or None.
    """

    data: Folder = Field(default_factory=_data_home)
    bundle: Folder = BUNDLE
    engine: Engine = "auto"
    device: Device = "auto"
    gallery: GalleryAddress = ""
    gallery_secrets: GalleryAddress = ""
    index: IndexAddress = "faiss"
    gallery_key_file: Folder | None = None
    target_fmr: Share = 1e-4
    target_fpir: Share = 1e-2
    min_quality: float = 0.25
    keep_thumbnails: bool = True
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 7860
    public_names: Names = ()
    behind_proxy: bool = False
    max_upload_bytes: Positive = 20_000_000
    max_request_bytes: Positive = 50_000_000
    max_pixels: Positive = 50_000_000
    max_photos: Positive = 50
    max_faces: Positive = 40
    workers: Positive = 4
    queue: Natural = 32
    queue_seconds: Seconds = 20.0
    upload_seconds: Seconds = 120.0
    rate_per_minute: Natural = 600
    audit: bool = True
    own_photos: Folder | None = None

    @classmethod
    def load(cls, file: str | os.PathLike[str] | None = None, /, **options: Any) -> Settings:
        """Read the settings; later sources win: file, environment, ``options`` that are not None.

        Args:
            file: A TOML file; by default the one named by ``FACE_SETTINGS``, if set.

        Raises:
            BadSetting: A name is unknown or a value is not allowed.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        file = file or os.environ.get("FACE_SETTINGS")
        values = _read_toml(Path(file)) if file else {}
        values |= {name: text for name in known if (text := os.environ.get(f"FACE_{name.upper()}"))}
        values |= {name: value for name, value in options.items() if value is not None}
        if unknown := values.keys() - set(known):
            raise BadSetting(f"There is no setting {min(unknown)!r}. Known: {', '.join(known)}.")
        try:
            settings = cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name, reason = first["loc"][0], first.get("ctx", {}).get("error")
            if reason is not None:  # An address, which is not repeated: it may hold a password.
                raise BadSetting(f"{name} is not usable: {reason}.") from None
            raise BadSetting(f"{name} is {first['input']!r}. {first['msg']}.") from None
        if settings.gallery_secrets and not settings.gallery:
            raise BadSetting("gallery_secrets is for a gallery in PostgreSQL; set gallery as well.")
        return settings

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


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadSetting(f"The settings file {file} cannot be read: {error}") from error
