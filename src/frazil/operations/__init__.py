"""Operations on whole arrays and hierarchies, on top of the engine: copies, conversions, rechunks, checksums, validation, pictures, serving.

Not here: reading and writing of elements (array/), and commands that print (cli/)."""
