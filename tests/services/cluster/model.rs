//! The model of a cluster in `docs/internals/scaling.md`.

use std::path::Path;
use std::process::Command;

#[test]
fn the_tables_of_the_model_are_those_that_its_command_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = root.join("docs/internals/scaling.md");
    let checked = Command::new(root.join("loadtest/capacity")).arg("--check").arg(document).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
