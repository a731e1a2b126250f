//! The signs that a data directory without a database had one: an empty store must not take its place by itself.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::ledger_file::LEDGER_FILE;

/// The folder in the data directory in which a restore makes its files.
pub(super) const RESTORING: &str = "restoring";

/// The sign that `data_dir`, which has no database, had one or was about to have one.
pub(super) fn remains(data_dir: &Path) -> io::Result<Option<&'static str>> {
    if data_dir.join(RESTORING).try_exists()? {
        return Ok(Some("a restore did not end"));
    }
    let path = data_dir.join(LEDGER_FILE);
    if !path.is_file() {
        return Ok(None);
    }
    let mut ledger = BufReader::new(File::open(path)?);
    // The first line is a header. A file without lines is of a process that ended before it had a database.
    ledger.skip_until(b'\n')?;
    Ok((!ledger.fill_buf()?.is_empty()).then_some("a ledger of deletions"))
}
