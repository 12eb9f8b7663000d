"""Repositories: transactions over the files that format/ describes. It never imports array/; the two meet at the ports in stores/."""
