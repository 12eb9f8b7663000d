"""AWS profiles: region, endpoint and credentials, as the tools of AWS find them (static ones, SSO, roles, credential_process).

botocore reads the files of these tools and renews what expires; nothing is parsed here. The clients of obstore read the environment variables themselves."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from frazil.base.record import Record
from frazil.errors import InvalidInputError

if TYPE_CHECKING:
    import botocore.session

_CREDENTIALS: Final = frozenset(
    {
        "access_key_id",
        "aws_access_key_id",
        "skip_signature",
        "aws_skip_signature",
        "credential_provider",
        "token",
        "aws_session_token",
    }
)
_VARIABLES: Final = {"region": ("AWS_REGION", "AWS_DEFAULT_REGION"), "endpoint": ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")}
NAMES: Final = {
    "region": frozenset({"region", "aws_region", "default_region", "aws_default_region"}),
    "endpoint": frozenset({"endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url"}),
}  # names of one option in obstore, in lower or upper case
_RENEWAL: Final = timedelta(minutes=5)  # botocore renews credentials that expire within ten minutes


class Profile(Record):
    """options   region and endpoint, unless options or environment give them
    settings  all settings of the profile in the files: clients that were created for other settings are not shared
    provider  creates a provider of credentials; None where the profile has none"""

    options: Mapping[str, object]
    settings: Mapping[str, object]
    provider: Callable[[], object | None]


def read_profile(arguments: Mapping[str, object]) -> Profile | None:
    """The profile that AWS_PROFILE names, or the default one; None where credentials are given otherwise, or no profile files exist.

    Raises InvalidInputError for a profile that is missing or invalid, and where boto3 is needed and not installed."""
    names = {name.lower() for name in arguments}
    if _CREDENTIALS & names or {"AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE"} & os.environ.keys():
        return None
    named = os.environ.get("AWS_PROFILE")
    credentials = os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
    config = os.environ.get("AWS_CONFIG_FILE", "~/.aws/config")
    files = [path for path in map(os.path.expanduser, (credentials, config)) if os.path.isfile(path)]
    if not named and not files:
        return None
    try:
        import botocore.session
        from botocore.exceptions import BotoCoreError
    except ImportError:
        raise InvalidInputError(
            f"the AWS profile {named or 'default'!r} needs boto3, which is not installed",
            path=files[0] if files else None,
            hint="pip install boto3, or give the credentials in the environment or as options; skip_signature=True reads what is public",
        ) from None
    session = botocore.session.Session()
    try:
        settings = session.get_scoped_config()
    except BotoCoreError as error:
        raise _refused(named, error) from None
    found = {"region": settings.get("region"), "endpoint": settings.get("endpoint_url")}
    options = {
        name: value
        for name, value in found.items()
        if value is not None
        and not NAMES[name] & names
        and not any(variable in os.environ for variable in _VARIABLES[name])
    }
    return Profile(options, settings, lambda: _provider(session, named))


def _provider(session: botocore.session.Session, named: str | None) -> object | None:
    from botocore.exceptions import BotoCoreError
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        return None if session.get_credentials() is None else Boto3CredentialProvider(session, ttl=_RENEWAL)
    except (BotoCoreError, OSError, ValueError) as error:  # from the program that a profile names, and from its output
        raise _refused(named, error) from None


def _refused(named: str | None, error: Exception) -> InvalidInputError:
    return InvalidInputError(
        f"the AWS profile {named or 'default'!r} has no credentials that can be used: {f'{error}'.partition(chr(10))[0]}",
        hint="`aws sts get-caller-identity` shows whether the AWS tools accept it; or give access_key_id and secret_access_key",
    )
