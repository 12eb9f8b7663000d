//! Files and folders beneath a root: opened, published under their locks, created, copied, listed. Their content is defined elsewhere.

pub(crate) mod append;
pub(crate) mod append_files;
pub(crate) mod append_journal;
pub(crate) mod beneath;
pub(crate) mod create;
pub(crate) mod file_copies;
pub(crate) mod folders;
pub(crate) mod listing;
pub(crate) mod lock;
pub(crate) mod new_file;
pub(crate) mod publish;
#[cfg(test)]
mod test_folder;
pub(crate) mod write_pieces;
