//! The native kernel of Frazil: what Python sees of it. This file only registers; each module says what lives in it.
//!
//! The contract, with the meaning of every column, is `src/frazil/_kernel.pyi`.

use pyo3::prelude::*;

mod base32;
mod beneath;
mod boxes;
mod chain;
mod codecs;
mod columns;
mod copy;
mod crew;
mod decode;
mod encode;
mod failures;
mod fetch;
mod file_copies;
mod folders;
mod fresh;
mod lock;
mod manifest;
mod manifest_written;
mod memory;
mod mover;
mod msgpack;
mod nodes;
mod pieces;
mod plain;
mod points;
mod program;
mod publish;
mod references;
mod segment;
mod share;
mod sources;

#[pymodule]
fn _kernel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    failures::register(module)?;
    program::register(module)?;
    sources::register(module)?;
    decode::register(module)?;
    points::register(module)?;
    encode::register(module)?;
    plain::register(module)?;
    segment::register(module)?;
    publish::register(module)?;
    file_copies::register(module)?;
    manifest::register(module)?;
    nodes::register(module)?;
    Ok(())
}
