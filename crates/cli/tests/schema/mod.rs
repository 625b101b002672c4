//! JSON that is held to the schemas in docs/schema.

use std::fs;
use std::path::Path;
use std::process::Command;
use sweephand_checks::{Need, skip};

/// Whether a document keeps to a schema in docs/schema: `None` where there is nothing to check it
/// with.
pub(crate) fn keeps_to(schema: &str, document: &str, folder: &Path) -> Option<Result<(), String>> {
    let has_validator = Command::new("python3").args(["-c", "import jsonschema"]).output();
    if !has_validator.is_ok_and(|output| output.status.success()) {
        skip(Need::Program, "python3-jsonschema");
        return None;
    }
    let path = folder.join("document.json");
    fs::write(&path, document).unwrap();
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let schemas = folders.map(|folder| folder.join("docs/schema")).find(|schemas| schemas.is_dir());
    let schema = schemas.expect("the project has them").join(schema);
    let script = "import json, sys, jsonschema\n\
                  schema, document = (json.load(open(path)) for path in sys.argv[1:])\n\
                  jsonschema.Draft202012Validator.check_schema(schema)\n\
                  jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)";
    let output = Command::new("python3").args(["-c", script]).args([schema, path]).output().expect("python3");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(if output.status.success() { Ok(()) } else { Err(said) })
}
