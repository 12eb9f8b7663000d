"""What is done with whole arrays and hierarchies, on top of the engine: copies, conversions, rechunks, checksums, validation, pictures, serving.

How elements are read and written is array/'s matter; commands that print are in cli/."""
