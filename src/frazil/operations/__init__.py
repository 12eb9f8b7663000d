"""What is done with whole arrays, on top of the engine: walking through selections, overviews, pictures."""
