"""Arrays and groups: plans from selections, executed against a chunk storage.

array, group       what users touch                 nodes, creation   their documents
reading, writing   from plans to bytes and back     shards, assembling, regions   the walk through shards, and back"""

from frazil.array.array import Array
from frazil.array.group import Group

__all__ = ["Array", "Group"]
