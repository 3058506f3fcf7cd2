"""What the deployment names is there."""

from __future__ import annotations

import re

import yaml

from tests.paths import ROOT

DEPLOY = ROOT / "app" / "deploy"


def test_the_image_copies_files_that_exist_and_runs_as_nobody_special() -> None:
    steps = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    copied = [
        name for line in re.findall(r"^COPY (.+)$", steps, re.M) for name in line.split()[:-1]
    ]
    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert re.findall(r"^USER (.+)$", steps, re.M) == ["face"]


def test_every_list_of_requirements_is_copied_before_pip_reads_it() -> None:
    steps = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").split("pip install")[0]
    copied = {
        name for line in re.findall(r"^COPY (.+)$", steps, re.M) for name in line.split()[:-1]
    }
    lists = [name for name in copied if name.endswith(".txt")]
    assert lists
    for name in lists:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert set(re.findall(r"^-r (.+)$", text, re.M)) <= copied, name


def test_the_app_servers_are_read_only_and_behind_the_proxy_alone() -> None:
    described = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    servers = {name: each for name, each in described["services"].items() if "app" in name}
    proxy = (DEPLOY / "Caddyfile").read_text(encoding="utf-8")
    assert len(servers) == 2
    for name, server in servers.items():
        assert server["read_only"]
        assert server["networks"] == ["inside"]
        assert f"{name}:7860" in proxy
    assert described["networks"]["inside"]["internal"]
    assert [name for name, each in described["services"].items() if "ports" in each] == ["proxy"]
    named = {each.split(":")[0] for s in described["services"].values() for each in s["volumes"]}
    assert {name for name in named if "." not in name} == set(described["volumes"])
