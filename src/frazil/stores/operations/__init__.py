"""The ten operations of the draft's abstract store interface: their types, how missing ones are made from others, and a store over an object that has some of
them.

The port that the rest of Frazil uses is in stores/store.py."""
