"""Files of branches and tags: their names, and the JSON in them (Icechunk specification, Reference Files); and the names of all other files.

repository/ decides which file is the newest, and who may write the next."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from frazil.base.record import Record
from frazil.errors import FormatError, InvalidInputError
from frazil.formats.ids import ALPHABET, ObjectId, decode_id, encode_id

RefKind: TypeAlias = Literal["branch", "tag"]

REFS: Final = "refs/"
LAST_SEQUENCE: Final = 2**40 - 1
_SUFFIX: Final = ".json"
_LONGEST: Final = 255  # largest name of a file, in bytes
_MOST_BYTES: Final = 2**16  # largest reference file; written ones have 35 bytes
_BRANCH: Final = "Repository.repair, or `frazil repo repair`, makes a branch at its last complete snapshot, or moves this one back to it"
_TAG: Final = "restore it from a copy, or remove it and create the tag again"
# what the alpha library keeps unchanged in names on a local disk; each byte of other characters becomes "%" and two hexadecimal digits
_PLAIN: Final = "".join([chr(code) for code in range(32, 127) if chr(code) not in '/\\{}^%`[]"<>~#|*?'])


class Ref(Record):
    """The content of a branch or tag file.

    snapshot  the id that it points to; None in a file that only deletes its branch
    deleted   the branch is deleted; a later file may create it again (an extension of Frazil: the specification cannot delete branches)"""

    snapshot: ObjectId | None
    deleted: bool = False


def parse_ref(data: bytes, key: str) -> Ref:
    """Reads a reference file. White space and other members are ignored. Raises FormatError with `key`."""
    try:
        return _parsed(data, key)
    except FormatError as error:
        error.hint = error.hint or (_TAG if key.endswith("/ref.json") else _BRANCH)
        raise


def _parsed(data: bytes, key: str) -> Ref:
    if not data:
        raise FormatError("a reference file is empty", key=key)
    if len(data) > _MOST_BYTES:
        raise FormatError(f"a reference file must have at most {_MOST_BYTES} bytes, found {len(data)}", key=key)
    try:
        document = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        offset = (
            f"byte {error.start}" if isinstance(error, UnicodeDecodeError) else f"character {getattr(error, 'pos', 0)}"
        )
        raise FormatError(f"a reference file must be JSON, but it is not, at {offset}", key=key) from None
    if not isinstance(document, dict):
        raise FormatError(f"a reference file must be a JSON object, found {data[:40]!r}", key=key)
    snapshot, deleted = document.get("snapshot"), document.get("deleted", False)
    if not isinstance(deleted, bool):
        raise FormatError(f"deleted must be true or false in a reference file, found {data[:80]!r}", key=key)
    if snapshot is None and deleted:
        return Ref(None, deleted=True)
    if not isinstance(snapshot, str):
        raise FormatError(f"a reference file must have the id of a snapshot, found {data[:80]!r}", key=key)
    return Ref(decode_id(snapshot, key), deleted)


def emit_ref(ref: Ref) -> bytes:
    """The bytes of a reference file."""
    members = [] if ref.snapshot is None else [f'"snapshot":"{encode_id(ref.snapshot)}"']
    if ref.deleted:
        members.append('"deleted":true')
    if not members:
        raise InvalidInputError("a reference that is not deleted must point to a snapshot")
    return f"{{{','.join(members)}}}".encode()


# --- names of files ------------------------------------------------------------------------------------------------------------------


def snapshot_key(value: ObjectId) -> str:
    return f"snapshots/{encode_id(value)}"


def manifest_key(value: ObjectId) -> str:
    return f"manifests/{encode_id(value)}"


def attributes_key(value: ObjectId) -> str:
    return f"attributes/{encode_id(value)}"


def branch_key(name: str, sequence: int) -> str:
    """The branch file of a sequence number on a local disk."""
    return folder_of("branch", name) + branch_file(sequence)


@lru_cache(64)
def branch_file(sequence: int) -> str:
    """The name of the branch file of a sequence number, without its folder: later numbers sort first."""
    if not 0 <= sequence <= LAST_SEQUENCE:
        raise InvalidInputError(f"a branch has the sequence numbers 0 to {LAST_SEQUENCE}, found {sequence}")
    number = LAST_SEQUENCE - sequence
    return "".join([ALPHABET[number >> shift & 31] for shift in range(35, -1, -5)]) + _SUFFIX


def parse_sequence(file: str) -> int | None:
    """The sequence number in the name of a branch file; None for a foreign file."""
    digits = file.removesuffix(_SUFFIX)
    if len(digits) != 8 or len(file) != 8 + len(_SUFFIX) or digits.strip(ALPHABET):
        return None
    number = 0
    for digit in digits:
        number = number << 5 | ALPHABET.index(digit)
    return LAST_SEQUENCE - number


def next_sequence(name: str, sequence: int) -> int:
    """The number of the next commit to the branch. Raises InvalidInputError after the last, 00000000.json."""
    if sequence >= LAST_SEQUENCE:
        raise InvalidInputError(
            f"the branch {name!r} is full: its last file, number {LAST_SEQUENCE}, is written",
            hint="create another branch at its last snapshot and continue there",
        )
    return sequence + 1


# --- names of branches and tags ------------------------------------------------------------------------------------------------------


def check_name(kind: RefKind, name: str) -> None:
    """Refuses a name that no branch or tag can have, with an InvalidInputError."""
    reason = None
    if not isinstance(name, str):
        reason = f"must be a string, found {name!r}"
    elif not name:
        reason = "must not be empty"
    elif "/" in name:
        reason = f"must not contain '/', found {name!r}"
    elif not _is_unicode(name) or "\0" in name:
        reason = f"must be Unicode without lone surrogates and NUL, found {name!r}"
    elif len(folder_of(kind, name)) - len(REFS) - 1 > _LONGEST:
        reason = f"must be shorter: as the name of a folder it has at most {_LONGEST} bytes, found {name[:40]!r}..."
    if reason is not None:
        raise InvalidInputError(f"the name of a {kind} {reason}")


def check_new_name(kind: RefKind, name: str) -> None:
    """As check_name, and refuses ambiguous names: separators of other systems, relative folders, control characters."""
    check_name(kind, name)
    if name in (".", "..") or "\\" in name or not name.isprintable():
        raise InvalidInputError(
            f"the name of a {kind} must not be relative, nor contain '\\' or control characters, found {name!r}"
        )


def _is_unicode(name: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def needs_encoding(name: str) -> bool:
    """Whether the name of a branch or tag is percent-encoded on a local disk."""
    return bool(name.strip(_PLAIN))


def folder_of(kind: RefKind, name: str) -> str:
    """The folder of the files of a branch or tag on a local disk: a prefix that ends in '/'."""
    return f"{REFS}{kind}.{_encoded(name)}/"


@lru_cache(64)
def folders_of(kind: RefKind, name: str, *, local: bool = True) -> tuple[str, ...]:
    """The possible prefixes of a branch or tag. New ones are written at the first: percent-encoded on a local disk, literal in other stores, as the alpha
    library does.

    A name that is itself the encoding of another one ("a%2Ab") is encoded everywhere: its literal folder belongs to the other name."""
    encoded, literal = folder_of(kind, name), f"{REFS}{kind}.{name}/"
    if encoded == literal or parse_folder(f"{kind}.{name}") != (kind, name):
        return (encoded,)
    return (encoded, literal) if local else (literal, encoded)


def _encoded(name: str) -> str:
    if not needs_encoding(name):
        return name
    return "".join(
        [chr(byte) if chr(byte) in _PLAIN else f"%{byte:02X}" for byte in name.encode("utf-8", "surrogatepass")]
    )


def parse_folder(folder: str) -> tuple[RefKind, str] | None:
    """The branch or tag of a folder in refs/; None for a foreign one."""
    kinds: tuple[RefKind, ...] = ("branch", "tag")
    for kind in kinds:
        name = folder.removeprefix(f"{kind}.")
        if name and name != folder and "/" not in (name := _unquoted(name)):
            return kind, name
    return None


def _unquoted(name: str) -> str:
    """The name whose encoding is `name`, or `name` itself: "a%41" is not an encoding, as A needs none."""
    first, *rest = name.split("%")
    out = bytearray(first.encode("utf-8", "surrogatepass"))
    for part in rest:
        digits = part[:2]
        if len(digits) != 2 or digits.strip("0123456789ABCDEFabcdef"):
            return name
        out += bytes.fromhex(digits) + part[2:].encode("utf-8", "surrogatepass")
    try:
        decoded = out.decode()
    except UnicodeDecodeError:
        return name
    return decoded if _encoded(decoded).upper() == name.upper() else name
