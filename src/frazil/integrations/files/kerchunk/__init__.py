"""References to chunks in other files: those of kerchunk (JSON, and tables in Parquet), and those of the manifests in datasets of VirtualiZarr.

They become virtual chunks of a repository."""
