//! Files of repositories: manifests and the nodes of snapshots, over MessagePack.

pub(crate) mod base32;
pub(crate) mod manifest;
pub(crate) mod manifest_encode;
pub(crate) mod msgpack;
pub(crate) mod msgpack_values;
pub(crate) mod nodes;
pub(crate) mod references;
