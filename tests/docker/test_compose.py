"""The compose file: by the schema of its specification, and against the code that it starts."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from sqlalchemy.engine import make_url

from sciagent.campaign.file.allow_list import AllowList, read_allow_list
from sciagent.campaign.file.rungs import TIER_LIMITS
from sciagent.store.database.engine import ledger_url
from tests.docker.images import (
    DOCKER,
    compose,
    compose_variables,
    env_example,
    environment,
    ours,
    parse,
    product_text,
    stages,
)
from tests.support.servers.process import free_port
from tests.support.servers.valkey import binaries

SERVICES = compose()["services"]
SECRETS = ("postgres_password", "ledger_url", "valkey.conf", "rabbitmq.conf", "broker_url")


def setup(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", folder / "setup.sh", *arguments], capture_output=True, text=True, timeout=30)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The folder docker/ as a fresh checkout has it."""
    target = tmp_path / "docker"
    shutil.copytree(DOCKER, target, ignore=shutil.ignore_patterns(".env", "allow.yaml", *SECRETS))
    return target


def secrets_of(service: dict[str, Any]) -> list[str]:
    return [one if isinstance(one, str) else one["source"] for one in service.get("secrets", [])]


@pytest.fixture(scope="module")
def specification() -> Any:
    schema = json.loads((Path(__file__).parent / "compose-spec.json").read_text(encoding="utf-8"))
    return jsonschema.validators.validator_for(schema)(schema)


def test_it_is_valid_by_the_specification(specification: Any) -> None:
    assert [f"{error.json_path}: {error.message}" for error in specification.iter_errors(compose())] == []


def test_the_specification_would_find_a_mistake(specification: Any) -> None:
    spoiled = copy.deepcopy(compose())
    spoiled["services"]["dispatcher"]["restrat"] = "always"
    assert ["restrat" in error.message for error in specification.iter_errors(spoiled)] == [True]


def test_the_services_are_these() -> None:
    assert set(SERVICES) == {
        "postgres",
        "valkey",
        "rabbitmq",
        "migrate",
        "dispatcher",
        "simulation",
        "high_fidelity",
        "metrics",
        "cli",
    }
    assert {name for name, one in SERVICES.items() if one.get("profiles")} == {"valkey", "rabbitmq", "cli"}
    assert env_example()["COMPOSE_PROFILES"] == "valkey"


@pytest.mark.parametrize("name", ours())
def test_a_command_line_is_understood(name: str) -> None:
    command = SERVICES[name]["command"]
    assert isinstance(command, list), "a string goes through a shell's rules"
    parse(command)


@pytest.mark.parametrize("name", ours())
def test_a_variable_is_one_that_is_read(name: str) -> None:
    product = product_text()
    for variable, value in SERVICES[name]["environment"].items():
        assert f'"{variable}"' in product or f'secret("{variable.removesuffix("_FILE")}")' in product
        if value.startswith("/run/secrets/"):
            assert value.removeprefix("/run/secrets/") in secrets_of(SERVICES[name])


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_is_pinned_and_ours_are_built_here(name: str) -> None:
    image, _, tag = SERVICES[name]["image"].partition(":")
    assert tag and "latest" not in tag and re.match(r"v?\d+(\.\d+)?", tag)
    if name in ours():
        built = {one["image"]: one["build"] for one in ours().values() if "build" in one}
        assert built[f"{image}:{tag}"]["target"] in stages()
        assert (DOCKER / built[f"{image}:{tag}"]["context"] / built[f"{image}:{tag}"]["dockerfile"]).exists()


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_as_few_rights_as_it_can_do_with(name: str) -> None:
    one = SERVICES[name]
    assert one["cap_drop"] == ["ALL"] and one["security_opt"] == ["no-new-privileges:true"]
    assert not one.get("privileged") and "cap_add" not in one and one.get("network_mode") != "host"
    assert one.get("read_only") or name == "rabbitmq", "which writes beside its data"
    assert name in ours() or one["user"] != "0"
    limits = one["deploy"]["resources"]["limits"]
    assert set(limits) == {"cpus", "memory", "pids"}
    assert one["restart"] == ("no" if name in ("migrate", "cli") else "unless-stopped")
    assert one["logging"]["options"]["max-size"], "or the disk fills with logs"


def test_one_port_is_published_and_to_this_host_alone() -> None:
    assert {name: one["ports"] for name, one in SERVICES.items() if "ports" in one} == {
        "metrics": ["127.0.0.1:9464:9464"]
    }
    assert "0.0.0.0:9464" in SERVICES["metrics"]["command"]
    assert any("9464" in word for word in SERVICES["metrics"]["healthcheck"]["test"])
    inside = {name for name, one in SERVICES.items() if one["networks"] == ["data"]}
    assert inside == {"postgres", "valkey", "rabbitmq"} and compose()["networks"]["data"]["internal"] is True


def test_everyone_waits_for_whom_they_need() -> None:
    for name, one in SERVICES.items():
        for other, how in one.get("depends_on", {}).items():
            healthy = how["condition"] == "service_healthy"
            assert healthy == ("healthcheck" in SERVICES[other] and "disable" not in SERVICES[other]["healthcheck"])
            assert how.get("required", True) == (other not in ("valkey", "rabbitmq")), "of these one is there"
        assert "healthcheck" in one, name
    for name in set(ours()) - {"migrate"}:
        assert SERVICES[name]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}


@pytest.mark.parametrize("name", ours())
def test_folders_that_are_written_are_volumes(name: str) -> None:
    mounts = dict(reversed(one.split(":")[:2]) for one in SERVICES[name]["volumes"])
    assert mounts["/data"] == "artifacts" and mounts["/campaigns"] == "../campaigns"
    variables = environment("core")
    for variable in ("SCIAGENT_ARTIFACTS", "SCIAGENT_CACHE"):
        assert variables[variable].startswith("/data/")
    for word in SERVICES[name]["command"]:
        for path in re.findall(r"(?:^|=)(/[\w/-]+)", word):
            assert any(path == mount or path.startswith(f"{mount}/") for mount in mounts), path


def test_what_is_declared_is_used_and_what_is_used_is_declared() -> None:
    whole = compose()
    named = {one.split(":")[0] for service in SERVICES.values() for one in service.get("volumes", [])}
    assert {one for one in named if "/" not in one} == set(whole["volumes"])
    assert {name for one in SERVICES.values() for name in secrets_of(one)} == set(whole["secrets"]) == set(SECRETS)
    assert {name for one in SERVICES.values() for name in one["networks"]} == set(whole["networks"])


def test_the_variables_have_the_defaults_that_the_example_gives() -> None:
    example = env_example()
    assert compose_variables() == {name: {value} for name, value in example.items() if name != "COMPOSE_PROFILES"}


@pytest.mark.parametrize("tier", ["simulation", "high_fidelity"])
def test_a_worker_has_the_memory_that_a_job_of_its_tier_may_ask_for(tier: str) -> None:
    options = dict(word.split("=") for word in SERVICES[tier]["command"] if "=" in word)
    need = next(memory for one, (_, memory) in TIER_LIMITS.items() if str(one) == tier)
    assert int(options["--memory-mb"]) // int(options["--slots"]) >= need
    limit = SERVICES[tier]["deploy"]["resources"]["limits"]["memory"]
    assert int(limit.removesuffix("g")) * 1024 >= int(options["--memory-mb"]) + 500, "the worker itself needs some"


@pytest.mark.parametrize("broker", ["valkey", "rabbitmq"])
def test_the_setup_makes_secrets_that_belong_together(checkout: Path, broker: str) -> None:
    done = setup(checkout, broker)
    assert done.returncode == 0, done.stderr
    text = {name: (checkout / "secrets" / name).read_text(encoding="utf-8") for name in SECRETS}
    assert not any("CHANGE_ME" in one for one in text.values())
    ledger, messages = ledger_url(text["ledger_url"].strip()), make_url(text["broker_url"].strip())
    assert (ledger.host, ledger.database) == ("postgres", "sciagent") and ledger.password == text["postgres_password"]
    assert messages.host == broker and messages.password and len(messages.password) >= 48
    assert f"requirepass {messages.password}\n" in text["valkey.conf"]
    assert f"default_pass = {messages.password}\n" in text["rabbitmq.conf"]
    assert f"COMPOSE_PROFILES={broker}\n" in (checkout / ".env").read_text(encoding="utf-8")
    assert (checkout / "secrets").stat().st_mode & 0o777 == 0o700, "the files may be read by the users of services"


def test_the_list_that_the_setup_makes_lets_campaigns_name_the_files_of_their_folder(checkout: Path) -> None:
    assert setup(checkout).returncode == 0
    assert read_allow_list(checkout / "allow" / "allow.yaml") == AllowList(folders=("/campaigns",))


def test_the_setup_overwrites_nothing(checkout: Path) -> None:
    assert setup(checkout).returncode == 0
    before = {path: path.read_bytes() for path in (checkout / ".env", *(checkout / "secrets").iterdir())}
    assert setup(checkout, "rabbitmq").returncode == 0
    assert {path: path.read_bytes() for path in (checkout / ".env", *(checkout / "secrets").iterdir())} == before
    (checkout / "secrets" / "ledger_url").unlink()
    done = setup(checkout)
    assert done.returncode == 1 and "would differ" in done.stderr
    assert setup(checkout, "kafka").returncode == 2


def test_a_real_server_takes_the_secret_of_valkey(checkout: Path, tmp_path: Path) -> None:
    assert setup(checkout).returncode == 0
    port, conf = free_port(), checkout / "secrets" / "valkey.conf"
    words = [binaries()[0], conf, "--port", str(port), "--bind", "127.0.0.1", "--dir", tmp_path]
    url = (checkout / "secrets" / "broker_url").read_text(encoding="utf-8").strip()
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            retry = Retry(ConstantBackoff(0.1), 50)
            with redis.Redis.from_url(url.replace("valkey:6379", f"127.0.0.1:{port}"), retry=retry) as client:
                assert client.ping()
                assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
            with redis.Redis(port=port) as stranger, pytest.raises(redis.AuthenticationError):
                stranger.ping()
        finally:
            server.terminate()
