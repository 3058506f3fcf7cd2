"""What we depend on: ``python -m tests.supply_chain lock|licences|audit``."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.paths import ROOT

LOCK = ROOT / ".github" / "requirements-lock.txt"
ALLOWED = re.compile(
    r"apache|bsd|mit\b|isc\b|psf|python software|mozilla|mpl|hpnd|zlib|lgpl|lesser general"
    r"|nvidia proprietary|nvidia-proprietary",  # in torch's GPU build, passed on unchanged
    re.IGNORECASE,
)
NOT_ALLOWED = re.compile(r"(?<!lesser )general public|(?<!l)gpl", re.IGNORECASE)
WITHOUT_FILES = ("cuda-toolkit",)
"""Packages that only name others."""


def required(file: Path = ROOT / "requirements.txt") -> dict[str, Distribution]:
    """Installed packages that a requirements file asks for, with all that these ask for."""
    found: dict[str, Distribution] = {}
    waiting = list(_listed(file))
    while waiting:
        wanted = waiting.pop()
        name = _plain(wanted.name)
        if name in found or not _applies(wanted):
            continue
        try:
            found[name] = distribution(wanted.name)
        except PackageNotFoundError:
            continue  # for another system, or an extra that is not installed
        for text in found[name].requires or ():
            inner = Requirement(text)
            if _applies(inner, wanted.extras):
                inner.marker = None
                waiting.append(inner)
    return dict(sorted(found.items()))


def licence(package: Distribution) -> str:
    """A package's licence in its own short words."""
    told = package.metadata
    classified = [
        line.rpartition(" :: ")[2]
        for line in told.get_all("Classifier") or ()
        if line.startswith("License :: ")
    ]
    named = told.get("License-Expression") or " / ".join(classified) or told.get("License") or "?"
    return " ".join(named.split())[:80]


def allowed(text: str) -> bool:
    """Whether what is made with it may be used and passed on under a licence of one's own."""
    return bool(ALLOWED.search(text)) and not NOT_ALLOWED.search(text)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _applies(wanted: Requirement, extras: set[str] | None = None) -> bool:
    if wanted.marker is None:
        return True
    return any(wanted.marker.evaluate({"extra": extra}) for extra in extras or {""})


def _listed(file: Path) -> Iterator[Requirement]:
    for line in file.read_text(encoding="utf-8").splitlines():
        text = line.split("#")[0].strip()
        if text.startswith("-r "):
            yield from _listed(file.parent / text.removeprefix("-r "))
        elif text:
            yield Requirement(text)


def lock() -> int:
    """Write the exact versions of what is installed."""
    lines = [f"{name}=={package.version.split('+')[0]}\n" for name, package in required().items()]
    LOCK.write_text("".join(lines), encoding="utf-8")
    print(f"{len(lines)} packages in {LOCK.name}")
    return 0


def licences() -> int:
    """Print a table of licences; 1 if there is one to look at."""
    doubtful = 0
    for name, package in required().items():
        text = licence(package)
        fine = allowed(text) or name in WITHOUT_FILES
        doubtful += not fine
        print(f"{name:<28} {package.version:<16} {'' if fine else 'LOOK: '}{text}")
    print(f"{doubtful} to look at")
    return 1 if doubtful else 0


def audit() -> int:
    """Hold the lock file against the list of known weaknesses."""
    lock()
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--requirement",
        str(LOCK),
        "--no-deps",
        "--strict",
    ]
    return subprocess.run([*command, "--disable-pip"], check=False).returncode


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("lock", "licences", "audit"))
    sys.exit({"lock": lock, "licences": licences, "audit": audit}[parser.parse_args().what]())
