//! Archives: the records of a store as a file, for exports, backups and imports. `export` writes an archive, `import`
//! stores one, `file` is the file, and `moving` does a whole command.
//!
//! The format, and which of two records stays, are in [`handbill_core::domain::archive`].
//!
//! * An export takes as long as its reader wants. It holds one batch of records, and the store holds nothing.
//! * A file appears under its name only when it is complete and on disk.
//! * An import reads the file twice: first to see that all of it is whole, then to store its records. It may be
//!   interrupted at any record and run again, because each record is stored or skipped by itself.

pub mod export;
pub mod file;
pub mod import;
pub mod moving;
pub mod receive;
