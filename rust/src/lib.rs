//! The native kernel of Frazil, as Python sees it. This file only lists; each module describes its content.
//!
//! The contract, with the meaning of every column, is `src/frazil/_kernel.pyi`.

use pyo3::prelude::pymodule;

mod byte_functions;
mod chunks;
mod codecs;
mod columns;
mod elements;
mod failures;
mod fetch;
mod files;
mod json_text;
mod memory;
mod repository;
mod sources;
mod threads;

/// Every function, class and constant of the module.
#[pymodule]
mod _kernel {
    use pyo3::prelude::*;
    use pyo3::types::{PyIterator, PyList, PyMapping, PySequence};

    use crate::chunks::shard_batch::ShardStatus;
    use crate::failures::{Code, MISSING};

    #[pymodule_export]
    use crate::{
        byte_functions::{checksum, crc32_rows, decode_bytes, encode_bytes, kernel_info, read_rows},
        chunks::decode::decode_chunks,
        chunks::encode::encode_chunks,
        chunks::program::{Program, program},
        chunks::read_inner_chunk::read_inner_chunk,
        chunks::read_shards::read_shards,
        chunks::shard_assembly::assemble_shards,
        chunks::shard_index::{ShardIndex, check_indexes, read_indexes, shard_index, write_indexes},
        elements::decode::decode_elements,
        elements::encode::encode_elements,
        elements::heap::compact_elements,
        elements::objects::{elements_of_objects, elements_to_objects},
        elements::strings::{elements_of_strings, elements_to_strings},
        files::append_files::{birth_time, change_files, restore_files},
        files::file_copies::{NewFile, copy_files},
        files::folders::Descriptor,
        files::listing::list_folder,
        files::publish::{await_lock, erase_files, publish_files, unlink_files},
        json_text::indent_json,
        memory::{Segment, populate},
        repository::base32::{decode_id, encode_ids},
        repository::manifest::{decode_manifest, encode_manifest, join_references},
        repository::msgpack_values::pack_value,
        repository::nodes::{find_nodes, skip_values},
        sources::{Files, open_files, read_files},
    };

    #[pymodule_init]
    fn set_up(module: &Bound<'_, PyModule>) -> PyResult<()> {
        import_for_pyo3(module.py())?;
        for (name, value) in [
            ("MISSING", MISSING),
            ("FAILED_STALE", Code::Stale as i64),
            ("FAILED_RANGE", Code::Range as i64),
            ("FAILED_DECODE", Code::Decode as i64),
            ("FAILED_CHECKSUM", Code::Checksum as i64),
            ("FAILED_SIZE", Code::Size as i64),
            ("FAILED_IO", Code::Io as i64),
            ("FAILED_ENCODE", Code::Encode as i64),
            ("FAILED_INDEX", Code::Index as i64),
            ("FAILED_INDEX_CHECKSUM", Code::IndexChecksum as i64),
            ("SHARD_KNOWN", ShardStatus::Known as i64),
            ("SHARD_FRESH", ShardStatus::Fresh as i64),
            ("SHARD_MISSING", ShardStatus::Missing as i64),
            ("SHARD_STALE", ShardStatus::Stale as i64),
            ("SHARD_FAILED", ShardStatus::Failed as i64),
        ] {
            module.add(name, value)?;
        }
        Ok(())
    }

    /// pyo3 imports these when it first needs them. If another thread forks the process meanwhile, the child waits for them for ever.
    fn import_for_pyo3(py: Python<'_>) -> PyResult<()> {
        PyList::empty(py).try_iter()?.size_hint();
        py.get_type::<PyIterator>();
        py.get_type::<PyMapping>();
        py.get_type::<PySequence>();
        Ok(())
    }
}
