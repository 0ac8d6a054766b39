//! The header against the sources that `scripts/header` makes it of, and the layout of its structures
//! against that of the library. Both run without cbindgen, so that a change of one that forgot the other
//! is found everywhere.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::mem::{align_of, offset_of, size_of};
use std::process::Command;
use tcpxp2p::operations::Piece;
use tcpxp2p::{Options, operations, result};

const SOURCES: [&str; 3] = [
    include_str!("../lib.rs"),
    include_str!("../operations.rs"),
    include_str!("../result.rs"),
];
const HEADER: &str = include_str!("../tcpxp2p.h");

/// Declarations by name, each with its comment and without the difference that white space makes.
type Declarations = BTreeMap<String, String>;

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text of the doc comment that ends before `at`.
fn doc_before(source: &str, at: usize) -> String {
    let lines: Vec<_> = source[..at].lines().rev().map(str::trim).collect();
    let attributes = lines.iter().take_while(|line| line.starts_with("#["));
    let mut doc: Vec<_> = lines[attributes.count()..]
        .iter()
        .map_while(|line| line.strip_prefix("///"))
        .collect();
    doc.reverse();
    words(&doc.join(" "))
}

/// `name: type` in C. Panics on a type that has no translation.
fn in_c(parameter: &str) -> String {
    let (name, of) = parameter.split_once(": ").expect(parameter);
    let name = name.trim_start_matches("pub ");
    let base = |of: &str| match of {
        "usize" => "size_t",
        "u8" => "uint8_t",
        "u16" => "uint16_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "c_int" => "int",
        "c_char" => "char",
        "c_void" => "void",
        "Handle" => "tcpxp2p_endpoint",
        "Options" => "tcpxp2p_options",
        "Piece" => "tcpxp2p_piece",
        other => panic!("the type {other} has no translation"),
    };
    if let Some(array) = of.strip_prefix("*mut [") {
        let (of, len) = array.trim_end_matches(']').split_once("; ").expect(array);
        return format!("{} (*{name})[{len}]", base(of));
    }
    if let Some(inner) = of.strip_prefix("*mut *mut ") {
        return format!("{} **{name}", base(inner));
    }
    match (of.strip_prefix("*const "), of.strip_prefix("*mut ")) {
        (Some(inner), _) => format!("const {} *{name}", base(inner)),
        (_, Some(inner)) => format!("{} *{name}", base(inner)),
        _ => format!("{} {name}", base(of)),
    }
}

/// What the sources export, in C.
fn exported() -> Declarations {
    let mut found = Declarations::new();
    for source in SOURCES {
        for (at, start) in source.match_indices("pub extern \"C\" fn ") {
            let rest = &source[at + start.len()..];
            let (name, rest) = rest.split_once('(').expect("parameters");
            let (parameters, rest) = rest.split_once(") -> ").expect("a result");
            let result = rest.split([' ', '{']).next().expect("a type");
            let result = match rest.strip_prefix("*const c_char") {
                Some(_) => "const char *",
                None if result == "c_int" => "int ",
                None => panic!("{name}: the result {rest} has no translation"),
            };
            let parameters: Vec<_> = parameters
                .split(',')
                .map(words)
                .filter(|one| !one.is_empty())
                .map(|one| in_c(&one))
                .collect();
            let parameters = match parameters.is_empty() {
                true => "void".to_owned(),
                false => parameters.join(", "),
            };
            let doc = doc_before(source, at);
            let declared = format!("{doc} | {result}{name}({parameters})");
            found.insert(name.to_owned(), declared);
        }
        for (at, start) in source.match_indices("pub const TCPXP2P_") {
            let rest = &source[at + start.len()..];
            let (name, rest) = rest.split_once(": ").expect("a type");
            let (_, value) = rest.split_once(" = ").expect("a value");
            let value = value.split(';').next().expect("an end");
            let doc = doc_before(source, at);
            found.insert(name.to_owned(), format!("{doc} | {value}"));
        }
        for (at, start) in source.match_indices("#[repr(C)]\npub struct ") {
            let rest = &source[at + start.len()..];
            let (name, rest) = rest.split_once(" {").expect("fields");
            let (fields, _) = rest.split_once("\n}").expect("an end");
            let fields = fields.lines().map(|line| line.trim().trim_end_matches(','));
            let fields = fields.filter(|line| !line.starts_with("///") && !line.is_empty());
            let fields: Vec<_> = fields.map(in_c).collect();
            let name = format!("tcpxp2p_{}", name.to_lowercase());
            let doc = doc_before(source, at);
            found.insert(name, format!("{doc} | {}", fields.join("; ")));
        }
    }
    found
}

/// The fields of a structure without their comments.
fn fields_of(structure: &str) -> String {
    let mut fields = String::new();
    for part in structure.split("*/") {
        fields += part.split("/*").next().unwrap_or_default();
    }
    words(&fields).trim_end_matches(';').to_owned()
}

/// What the header declares.
fn declared() -> Declarations {
    let mut found = Declarations::new();
    let items = HEADER.split("\n\n");
    for item in items {
        let (doc, item) = match item.trim().strip_prefix("/*") {
            Some(rest) => rest.split_once("*/").expect("an end of the comment"),
            None => ("", item),
        };
        let doc = words(&doc.replace("\n *", "\n").replacen('*', "", 1));
        if let Some(structure) = item.trim().strip_prefix("typedef struct {")
            && let Some((fields, name)) = structure.rsplit_once("} ")
        {
            let fields = fields_of(fields);
            found.insert(
                name.trim_end_matches(';').to_owned(),
                format!("{doc} | {fields}"),
            );
            continue;
        }
        let item = words(item);
        if let Some(constant) = item.strip_prefix("#define TCPXP2P_")
            && let Some((name, value)) = constant.split_once(' ')
        {
            found.insert(name.to_owned(), format!("{doc} | {value}"));
        } else if let Some((head, _)) = item.split_once('(')
            && let Some(name) = head.split([' ', '*']).next_back()
            && name.starts_with("tcpxp2p_")
        {
            let item = item.trim_end_matches(';');
            found.insert(name.to_owned(), format!("{doc} | {item}"));
        }
    }
    found
}

#[test]
fn the_header_declares_what_the_library_exports() {
    let (exported, declared) = (exported(), declared());
    let names = |all: &Declarations| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&declared), names(&exported), "run scripts/header");
    for (name, line) in &exported {
        assert_eq!(&declared[name], line, "run scripts/header");
    }
    let functions = exported.keys().filter(|name| name.starts_with("tcpxp2p_"));
    assert_eq!(functions.count(), 19 + 2, "functions and structures");
    let constants = exported.len() - (19 + 2);
    assert_eq!(constants, 9 + 3 + 2, "results, rights, sizes");
}

/// Assertions in C about a structure of the library.
macro_rules! layout {
    ($structure:ident, $name:literal, $($field:ident)+) => {{
        // A field that is not named here does not compile.
        let _ = |one: $structure| {
            let $structure { $($field: _),+ } = one;
        };
        let mut text = format!(
            "_Static_assert(sizeof({0}) == {1} && _Alignof({0}) == {2}, \"{0}\");\n",
            $name, size_of::<$structure>(), align_of::<$structure>()
        );
        $(writeln!(
            text,
            "_Static_assert(offsetof({0}, {1}) == {2}, \"{1}\");",
            $name, stringify!($field), offset_of!($structure, $field)
        ).expect("text");)+
        text
    }};
}

#[test]
fn a_c_compiler_finds_the_library_s_layouts_and_numbers() {
    let mut text = String::from("#include \"tcpxp2p.h\"\n");
    text += &layout!(Options, "tcpxp2p_options", size name plugin address secret_file chunk lanes port gpu);
    text += &layout!(Piece, "tcpxp2p_piece", registration address len blob offset);
    for (name, number) in [
        ("TCPXP2P_DONE", result::TCPXP2P_DONE),
        ("TCPXP2P_INTERNAL", result::TCPXP2P_INTERNAL),
        ("TCPXP2P_BOTH", operations::TCPXP2P_BOTH),
    ] {
        writeln!(text, "_Static_assert({name} == {number}, \"{name}\");").expect("text");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("layout.c");
    std::fs::write(&file, &text).expect("a file");
    let compiled = Command::new("cc")
        .args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsyntax-only",
            "-I",
            env!("CARGO_MANIFEST_DIR"),
        ])
        .arg(&file)
        .output()
        .expect("a C compiler");
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{text}{said}");
}
