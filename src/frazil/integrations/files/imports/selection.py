"""The variables of a scanned file to import: those that are named, without those that are skipped. Pure.

A variable that cannot be imported is an error, unless it is skipped or others are named."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import Final

from frazil.base.reports import counted
from frazil.errors import InvalidInputError
from frazil.integrations.files.scanned import ScannedFile, Skipped

_SKIPPED: Final = "it was skipped as requested"
_NAMED_NOT: Final = "it was not requested"
_MOST_NAMED: Final = 10  # variables in one error


def is_named(path: str, names: Sequence[str]) -> bool:
    """Whether one of the names is that of the variable at a path; "*", "?" and "[...]" in names match any characters, as in a shell."""
    return any(fnmatchcase(path, name.strip("/")) for name in names)


def has_variable(scanned: ScannedFile, name: str) -> bool:
    """Whether a variable of the file has this path, as for is_named."""
    return any(is_named(path, [name]) for path in [*[array.path for array in scanned.arrays], *_missing(scanned)])


def select_variables(
    scanned: ScannedFile, skip: Sequence[str], file: str, variables: Sequence[str] | None = None
) -> ScannedFile:
    """The file with the variables to import; the others are added to `skipped`.

    skip, variables  paths of variables in the file, "level1/temp", as for is_named; variables None: all
    file             its name in errors
    Raises InvalidInputError for a variable that cannot be imported and is not left out, and for a name that no variable has."""
    for names, action in ((skip, "be skipped"), (variables or (), "be imported")):
        if (
            isinstance(names, str)
            or not isinstance(names, Collection)
            or not all(isinstance(name, str) for name in names)
        ):
            raise InvalidInputError(
                f"the variables to {action} are a list of their paths, found {names!r}",
                hint='as in skip=["level1/temp", "station_*"]',
            )
        for name in names:
            others = [part.path for part in scanned.skipped] if names is skip else []  # as other names of a variable
            if not has_variable(scanned, name) and not any(is_named(path, [name]) for path in others):
                raise InvalidInputError(f"there is no variable {name!r} to {action}", key=file)
    reasons = {array.path: _skip_reason(array.path, skip, variables) for array in scanned.arrays}
    missing = _missing(scanned)
    lost = [path for path in missing if not _skip_reason(path, skip, variables)]
    if lost:
        named = lost[:_MOST_NAMED]
        raise InvalidInputError(
            f"{counted(len(lost), 'variable')} cannot be imported: "
            + "; ".join([*[f"/{path}: {missing[path]}" for path in named], *["..."] * (len(lost) > len(named))]),
            key=file,
            hint=f"import the others, with skip={lost!r}",
        )
    left_out = [Skipped(path, None, reason) for path, reason in reasons.items() if reason]
    return scanned._replace(
        arrays=tuple([array for array in scanned.arrays if not reasons[array.path] and array.path not in missing]),
        skipped=tuple([part._replace(loses_values=False) for part in (*scanned.skipped, *left_out)]),
    )


def _skip_reason(path: str, skip: Sequence[str], variables: Sequence[str] | None) -> str:
    if is_named(path, skip):
        return _SKIPPED
    return "" if variables is None or is_named(path, variables) else _NAMED_NOT


def is_left_out(path: str, skip: Sequence[str], variables: Sequence[str] | None) -> bool:
    """Whether the user excluded the variable at a path."""
    return bool(_skip_reason(path, skip, variables))


def _missing(scanned: ScannedFile) -> dict[str, str]:
    """Variables whose values would be lost, with the reasons."""
    return {part.path: part.reason for part in scanned.skipped if part.attribute is None and part.loses_values}
