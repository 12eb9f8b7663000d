"""References to chunks in other files: of kerchunk (JSON, and tables in Parquet), and of the manifests in datasets of VirtualiZarr.

They become virtual chunks of a repository."""
