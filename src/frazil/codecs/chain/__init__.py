"""Chains of codecs: checked and compiled for an array (compilation.py), and run on many chunks (compiled_chain.py), with stages for codecs that the kernel does
not have.

The codecs themselves are in the packages of their kinds, the bytes of a shard in sharding/."""

from frazil.base.late import late_modules

late_modules(__name__, "compilation", "element_stage", "python_chain", "python_stage")
