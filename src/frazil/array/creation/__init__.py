"""Creating arrays: from the arguments of create_array to metadata, a stored document and written data.

Not here: documents and nodes (hierarchy/), and how data is encoded and stored (io/)."""
