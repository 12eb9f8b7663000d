"""What users call: opening and creating at a location."""
