//! Chunks: decoded into and encoded from strided arrays. The sources of their bytes are in sources.rs and fetch.rs.

pub(crate) mod box_copies;
pub(crate) mod boxes;
pub(crate) mod chain;
pub(crate) mod copy;
pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod points;
pub(crate) mod program;
pub(crate) mod read_inner_chunk;
pub(crate) mod read_shards;
pub(crate) mod selection;
pub(crate) mod shard_assembly;
pub(crate) mod shard_batch;
pub(crate) mod shard_index;
pub(crate) mod shard_walk;
