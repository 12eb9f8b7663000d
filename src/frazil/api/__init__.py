"""The public functions that open and create at a location, Repository and Session. The only package that uses both arrays and transactions.

Not here: arrays and groups (array/), transactions (repository/), and operations on whole arrays (operations/)."""

from frazil.base.late import late_modules

late_modules(__name__, "destinations", "node_locations", "ref_locations", "repository", "repository_arguments")
