//! Holds every answer that a test sees against the OpenAPI document. `spec::openapi` says which statuses that may list.

use std::sync::LazyLock;

use handbill_pages::values::origin::Origin;
use serde_json::{Value, json};

use super::exchange::Answer;

const DOCUMENTED_FIELDS: [&str; 9] = [
    "cache-control",
    "etag",
    "location",
    "pragma",
    "ratelimit",
    "ratelimit-policy",
    "retry-after",
    "www-authenticate",
    "x-robots-tag",
];

/// The document. At another origin, only the origin in it differs.
pub(crate) static DOCUMENT: LazyLock<Document> = LazyLock::new(|| {
    let text = handbill::http::openapi_document(&Origin::parse("https://pages.example").unwrap(), None);
    Document(serde_json::from_str(&text).unwrap())
});

pub(crate) struct Document(pub(crate) Value);

impl Document {
    /// Fails unless the document lists the answer to `method` at `path`: its status, its content type and its shape.
    /// Operations that are not documented are not checked.
    #[track_caller]
    pub(crate) fn check(&self, method: &str, path: &str, answer: &Answer) {
        let method = method.to_ascii_lowercase();
        let Some((template, operation)) = self.operation(&method, path) else { return };
        let status = answer.status;
        let at = format!("{method} {template} answered {status}");

        let response = &operation["responses"][status.to_string()];
        assert!(response.is_object(), "{at}, which is not in the document");
        let documented = response.get("headers").and_then(Value::as_object);
        for field in DOCUMENTED_FIELDS.into_iter().filter(|field| answer.headers.contains_key(*field)) {
            let is_listed = documented.is_some_and(|fields| fields.keys().any(|name| name.eq_ignore_ascii_case(field)));
            assert!(is_listed, "{at} with the field {field}, which is not in the document");
        }
        let Some(content) = response.get("content").and_then(Value::as_object) else {
            assert!(answer.body.is_empty(), "{at} with a body, which is not in the document");
            return;
        };
        let media_type = answer.header("content-type");
        let listed =
            content.get(media_type).unwrap_or_else(|| panic!("{at} as {media_type}, which is not in the document"));
        self.check_shape(&listed["schema"], &answer.json(), &at);
    }

    #[track_caller]
    pub(crate) fn check_shape(&self, schema: &Value, value: &Value, at: &str) {
        // OpenAPI 3.1 schemas are those of draft 2020-12, where keywords may stand beside a reference.
        let closed = json!({
            "allOf": [schema],
            "unevaluatedProperties": false,
            "components": self.0["components"],
        });
        let validator = jsonschema::draft202012::options().should_validate_formats(true).build(&closed).unwrap();
        let faults: Vec<String> = validator.iter_errors(value).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{at}: {value} is not as documented: {faults:?}");
    }

    pub(crate) fn operations(&self) -> Vec<(&str, &str, &Value)> {
        const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
        let paths = self.0["paths"].as_object().unwrap();
        let operations = paths.iter().flat_map(|(template, item)| {
            let item = item.as_object().unwrap().iter().filter(|(key, _)| METHODS.contains(&key.as_str()));
            item.map(|(method, operation)| (method.as_str(), template.as_str(), operation))
        });
        operations.collect()
    }

    fn operation(&self, method: &str, path: &str) -> Option<(&str, &Value)> {
        let found = self.operations().into_iter().find(|(verb, template, _)| *verb == method && fits(template, path));
        found.map(|(_, template, operation)| (template, operation))
    }
}

fn fits(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    let segment_fits =
        |(part, segment): (&&str, &&str)| part == segment || (part.starts_with('{') && !segment.is_empty());
    template.len() == path.len() && template.iter().zip(&path).all(segment_fits)
}
