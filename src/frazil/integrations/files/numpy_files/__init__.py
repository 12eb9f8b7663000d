"""Files of NumPy: .npy, one array, and .npz, a zip file of them.

Pickled objects are refused."""
