"""The public classes Array and Group, and everything that reads or writes elements.

array.py and group.py have the two classes. creation/ makes new arrays, hierarchy/ has documents and nodes, io/ reads and writes, shards/ finds and makes
shards. Not here: plans (indexing/), codecs, and storage (stores/, repository/)."""

from typing import TYPE_CHECKING

from frazil.base.late import late_modules, late_names

if TYPE_CHECKING:
    from frazil.array.array import Array
    from frazil.array.group import Group

__all__ = ["Array", "Group"]
if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(__name__, {"Array": "frazil.array.array", "Group": "frazil.array.group"})

late_modules(__name__, "array", "group", "info")
