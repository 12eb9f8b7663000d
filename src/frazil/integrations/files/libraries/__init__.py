"""Calls of the libraries that scan and decode files of HDF5, TIFF and GRIB: the process in which they run, and the chunks that they decode."""
