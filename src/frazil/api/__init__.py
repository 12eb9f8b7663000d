"""What users call: functions that open and create at a location, Repository and Session. The only package that knows both arrays and transactions.

Not here: arrays and groups themselves (array/), transactions themselves (repository/), and what is done with whole arrays (operations/)."""
