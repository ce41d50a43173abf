//! `sys` against the header: every struct field by field, every function argument by argument.

use super::*;
use std::ffi::CString;

const HEADER: &str = include_str!("../../../../include/rapt/rapt.h");

/// Those that have nothing to say to Rust: zeros are as good as `init`, a kernel's name begins with
/// its backend, an error has a kind, and a plan is made from a problem.
fn is_left_out(function: &str) -> bool {
    let others =
        ["rapt_plan_create", "rapt_kernel_backend", "rapt_status_name", "rapt_struct_size"];
    function.ends_with("_init") || others.contains(&function)
}

/// The header without comments and without spaces that mean nothing.
fn plain_header() -> String {
    let mut text = String::new();
    for part in HEADER.split("/*") {
        text.push_str(part.split_once("*/").map_or(part, |(_, code)| code));
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `const char** name` as ("name", "*mut *const c_char"), `int64_t size[4]` as ("size", "[i64; 4]").
fn declared(text: &str) -> (String, String) {
    let (text, count) = match text.split_once('[') {
        Some((before, rest)) => (before, Some(rest.trim_end_matches(']'))),
        None => (text, None),
    };
    let (kind, name) = text.trim().rsplit_once(' ').unwrap();
    let kind = rust_type(kind);
    (name.to_string(), count.map_or(kind.clone(), |count| format!("[{kind}; {count}]")))
}

fn rust_type(text: &str) -> String {
    let text = text.trim();
    if let Some(pointed) = text.strip_suffix('*') {
        return match pointed.strip_prefix("const ") {
            Some(constant) if !constant.ends_with('*') => format!("*const {}", rust_type(constant)),
            _ => format!("*mut {}", rust_type(pointed)),
        };
    }
    let known = [
        ("void", "c_void"),
        ("char", "c_char"),
        ("int32_t", "i32"),
        ("int64_t", "i64"),
        ("size_t", "usize"),
        ("float", "f32"),
        ("double", "f64"),
    ];
    known.iter().find(|(c, _)| *c == text).map_or(text, |(_, rust)| rust).to_string()
}

/// One declaration may name several fields: `rapt_tensor q, k`.
fn fields(body: &str) -> Vec<(String, String)> {
    if body.contains("(*") {
        let name = body.split("(*").nth(1).unwrap().split(')').next().unwrap();
        return vec![(name.to_string(), format!("Option<{name}>"))];
    }
    let (first, rest) = body.split_once(',').map_or((body, ""), |(first, rest)| (first, rest));
    let kind = first.trim().rsplit_once(' ').unwrap().0;
    let others = rest.split(',').map(str::trim).filter(|name| !name.is_empty());
    std::iter::once(declared(first))
        .chain(others.map(|name| declared(&format!("{kind} {name}"))))
        .collect()
}

#[test]
fn structs_have_the_fields_that_the_header_gives_them() {
    let header = plain_header();
    assert_eq!(header.matches("typedef struct rapt_").count(), STRUCTS.len() + 2); // two are opaque
    for (name, _, ours) in STRUCTS {
        let body = header.split(&format!("typedef struct {name} {{")).nth(1).expect(name);
        let body = body.split('}').next().unwrap();
        let theirs: Vec<_> =
            body.split(';').filter(|field| !field.trim().is_empty()).flat_map(fields).collect();
        let ours: Vec<_> =
            ours.iter().map(|(name, kind)| (name.to_string(), kind.to_string())).collect();
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn structs_are_as_large_as_the_library_has_them() {
    for (name, ours, _) in STRUCTS {
        let (name, mut theirs) = (CString::new(*name).unwrap(), 0);
        assert_eq!(unsafe { rapt_struct_size(name.as_ptr(), &mut theirs) }, RAPT_OK);
        assert_eq!(*ours, theirs, "{name:?}");
    }
}

#[test]
fn functions_are_declared_as_in_the_header() {
    let mut checked = 0;
    let is_declaration = |text: &&str| !text.starts_with(['_', '#']); // those define the macro
    for declaration in plain_header().split("RAPT_C_API ").skip(1).filter(is_declaration) {
        let declaration = declaration.split(';').next().unwrap();
        let (head, arguments) = declaration.split_once('(').unwrap();
        let (name, result) = declared(head);
        if is_left_out(&name) {
            continue;
        }
        let arguments: Vec<_> = arguments
            .trim_end_matches(')')
            .split(',')
            .filter(|argument| *argument != "void")
            .map(|argument| declared(argument.trim()))
            .map(|(name, kind)| format!("{name}: {kind}"))
            .collect();
        let result = if result == "c_void" { "".to_string() } else { format!(" -> {result}") };
        let theirs = format!("({}){result}", arguments.join(", "));
        let ours = FUNCTIONS.iter().find(|(ours, _)| *ours == name).expect(&name).1;
        let spaceless = |text: &str| text.replace(char::is_whitespace, "");
        assert_eq!(spaceless(ours), spaceless(&theirs), "{name}");
        checked += 1;
    }
    assert_eq!(checked, FUNCTIONS.len());
}
