"""What only the alpha format needs: metadata as its snapshots hold it.

The bytes of its files are in formats/alpha/."""
