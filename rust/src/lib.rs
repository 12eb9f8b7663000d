//! The native kernel of Frazil, as Python sees it. This file only registers; each module describes its content.
//!
//! The contract, with the meaning of every column, is `src/frazil/_kernel.pyi`.

use pyo3::prelude::*;

mod byte_functions;
mod chunks;
mod codecs;
mod columns;
mod elements;
mod failures;
mod fetch;
mod files;
mod memory;
mod repository;
mod rows;
mod segment;
mod sources;
mod threads;

#[pymodule]
fn _kernel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    failures::register(module)?;
    chunks::program::register(module)?;
    sources::register(module)?;
    chunks::decode::register(module)?;
    chunks::points::register(module)?;
    chunks::encode::register(module)?;
    chunks::shard_index::register(module)?;
    chunks::shard_assembly::register(module)?;
    chunks::read_shards::register(module)?;
    byte_functions::register(module)?;
    elements::heap::register(module)?;
    elements::decode::register(module)?;
    elements::encode::register(module)?;
    elements::objects::register(module)?;
    elements::strings::register(module)?;
    segment::register(module)?;
    files::publish::register(module)?;
    files::append_files::register(module)?;
    files::file_copies::register(module)?;
    files::descriptor::register(module)?;
    files::listing::register(module)?;
    files::unlink::register(module)?;
    repository::manifest::register(module)?;
    repository::nodes::register(module)?;
    Ok(())
}
