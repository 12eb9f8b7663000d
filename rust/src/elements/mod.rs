//! Elements of variable length: their views, and conversions between views, encoded chunks and NumPy's or Python's strings.
//!
//! Chunks of views are gathered and scattered like any chunks of 16-byte elements (chunks/).

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod heap;
pub(crate) mod objects;
pub(crate) mod strings;
