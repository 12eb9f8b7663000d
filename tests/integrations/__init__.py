"""Files of other formats, scanned: what is found there is what their own libraries read."""
