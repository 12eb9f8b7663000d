"""Profiles of the AWS tools: static credentials, programs, assumed roles; a bucket is read with them. Creating a store reports unusable profiles."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.servers.buckets import S3
from tests.servers.scripted import Request, scripted

from frazil.errors import InvalidInputError
from frazil.stores import ObjectStore


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without profiles, and an environment without credentials."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (tmp_path / ".aws").mkdir()
    return tmp_path


def write_profile(home: Path, s3: S3, lines: str, name: str = "profile other") -> None:
    (home / ".aws/config").write_text(f"[{name}]\nregion = {s3.region}\nendpoint_url = {s3.endpoint}\n{lines}\n")


def works(s3: S3) -> None:
    store = ObjectStore(f"s3://{s3.new_bucket()}/a")
    store.set("key", b"value")
    assert ObjectStore(f"{store.url}").get("key") == b"value"


@pytest.fixture
def with_boto3() -> None:
    pytest.importorskip("boto3")


@pytest.mark.usefixtures("with_boto3")
def test_static_credentials_of_a_profile(home: Path, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    write_profile(home, s3, "")
    secret = f"aws_access_key_id = {s3.key}\naws_secret_access_key = {s3.secret}\n"
    (home / ".aws/credentials").write_text(f"[other]\n{secret}[default]\naws_access_key_id = nobody\n")
    monkeypatch.setenv("AWS_PROFILE", "other")
    works(s3)


@pytest.mark.usefixtures("with_boto3")
def test_the_default_profile(home: Path, s3: S3) -> None:
    write_profile(home, s3, f"aws_access_key_id = {s3.key}\naws_secret_access_key = {s3.secret}", "default")
    works(s3)


@pytest.mark.usefixtures("with_boto3")
def test_a_program_that_tells_credentials_is_run_once(home: Path, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = {"Version": 1, "AccessKeyId": s3.key, "SecretAccessKey": s3.secret}
    runs = home / "runs"
    program = home / "tell.py"
    program.write_text(f"open({str(runs)!r}, 'a').write('x')\nprint({json.dumps(credentials)!r})\n")
    write_profile(home, s3, f"credential_process = {sys.executable} {program}")
    monkeypatch.setenv("AWS_PROFILE", "other")
    bucket = s3.new_bucket()
    stores = [ObjectStore(f"s3://{bucket}/{number}") for number in range(5)]
    for store in stores:
        store.set("key", b"value")
        assert store.get("key") == b"value"
    assert runs.read_text() == "x"


@pytest.mark.usefixtures("with_boto3")
def test_a_role_that_is_assumed(home: Path, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    until = datetime.now(UTC) + timedelta(hours=1)
    body = f"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
        <AccessKeyId>{s3.key}</AccessKeyId><SecretAccessKey>{s3.secret}</SecretAccessKey><SessionToken></SessionToken>
        <Expiration>{until:%Y-%m-%dT%H:%M:%SZ}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""

    def answer(_: Request) -> bytes:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        return (head + body).encode()

    (home / ".aws/credentials").write_text("[base]\naws_access_key_id = base\naws_secret_access_key = word\n")
    write_profile(home, s3, "role_arn = arn:aws:iam::123456789012:role/reader\nsource_profile = base")
    monkeypatch.setenv("AWS_PROFILE", "other")
    with scripted(answer) as sts:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.url)
        works(s3)
        assert sts.requests


@pytest.mark.usefixtures("with_boto3")
def test_options_and_environment_override_profiles(home: Path, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".aws/config").write_text("[default]\ncredential_process = /nowhere/at/all\nregion = far-1\n")
    assert s3.store().list() == []
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    works(s3)


@pytest.mark.usefixtures("with_boto3")
@pytest.mark.parametrize(
    "endpoint", ["endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "AWS_ENDPOINT_URL"]
)
@pytest.mark.parametrize("region", ["region", "aws_region", "AWS_REGION", "default_region"])
def test_options_count_more_than_a_profile_whatever_they_are_called(
    home: Path, s3: S3, endpoint: str, region: str
) -> None:
    lines = "region = elsewhere-1\nendpoint_url = http://nowhere.invalid"
    keys = f"aws_access_key_id = {s3.key}\naws_secret_access_key = {s3.secret}"
    (home / ".aws/config").write_text(f"[default]\n{lines}\n{keys}\n")
    store = ObjectStore(f"s3://{s3.new_bucket()}/a", **{endpoint: s3.endpoint, region: s3.region})
    store.set("key", b"value")
    assert store.get("key") == b"value"


@pytest.mark.usefixtures("with_boto3")
def test_profiles_that_cannot_be_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = home / ".aws/config"
    for text in (
        "[default]\ncredential_process = /nowhere/at/all\n",
        "[default]\naws_access_key_id = half\n",
        "nonsense",
    ):
        config.write_text(text)
        with pytest.raises(InvalidInputError, match="AWS profile 'default'") as caught:
            ObjectStore("s3://bucket/a")
        assert caught.value.hint is not None
    monkeypatch.setenv("AWS_PROFILE", "not there")
    with pytest.raises(InvalidInputError, match="not there"):
        ObjectStore("s3://bucket/a")


def test_without_boto3_a_profile_is_an_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("boto3", "botocore", "botocore.session"):
        monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    ObjectStore("s3://bucket/a", region="far-1")  # without any profiles, none is missing
    (home / ".aws/credentials").write_text("[default]\naws_access_key_id = known\naws_secret_access_key = secret\n")
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="boto3") as caught:
            ObjectStore("s3://bucket/a")
        assert "secret" not in f"{caught.value} {caught.value.hint}".replace("secret_access_key", "")
        monkeypatch.setenv("AWS_PROFILE", "other")
    ObjectStore("s3://bucket/a", access_key_id="a", secret_access_key="b")
