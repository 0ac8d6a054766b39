//! Names of variables: unknown ones, with the nearest known name; ones that nothing reads;
//! ones that belong to another product.
#![forbid(unsafe_code)]

use super::table::{Reader, VariableTable};
use super::{Environment, Findings, Fix, LintKind, pair};

pub(super) fn check(table: &VariableTable, environment: &Environment, findings: &mut Findings) {
    for name in environment.keys() {
        match (table.variable(name), table.family(name)) {
            (Some(variable), _) if variable.read_by == Reader::Nobody => {
                unused(table, environment, name, findings)
            }
            (Some(_), _) => {}
            (None, Some(family)) if family.read_by == Reader::Other => {
                let product = family.product.as_deref().unwrap_or("another product");
                let text = format!(
                    "{} is for {product}; TCPX does not read it",
                    pair(environment, name)
                );
                findings.add(LintKind::OtherProduct, text, [Fix::Unset(name.clone())]);
            }
            (None, Some(_)) => {}
            (None, None) if table.is_nccl(name) => {}
            (None, None) => unknown(table, environment, name, findings),
        }
    }
}

fn unused(table: &VariableTable, environment: &Environment, name: &str, findings: &mut Findings) {
    let variable = table.variable(name);
    let what = variable
        .and_then(|variable| variable.note.as_deref())
        .unwrap_or("nothing reads it");
    let instead = variable.and_then(|variable| variable.instead.as_deref());
    let hint = instead
        .map(|instead| format!("; set {instead} instead"))
        .unwrap_or_default();
    findings.add(
        LintKind::ReadByNobody,
        format!("{}: {what}{hint}", pair(environment, name)),
        [Fix::Unset(name.to_owned())],
    );
}

/// The fix moves the value to the nearest known name, unless that is already set.
fn unknown(table: &VariableTable, environment: &Environment, name: &str, findings: &mut Findings) {
    let nearest = table.nearest(name);
    let hint = match nearest {
        Some(nearest) => format!("; did you mean {nearest}?"),
        None => String::new(),
    };
    let mut fixes = Vec::new();
    if let (Some(nearest), Some(value)) = (nearest, environment.get(name)) {
        fixes.push(Fix::Unset(name.to_owned()));
        if !environment.contains_key(nearest) {
            fixes.push(Fix::Set(nearest.to_owned(), value.clone()));
        }
    }
    let text = format!(
        "{} is read by neither the plugin nor NCCL{hint}",
        pair(environment, name)
    );
    findings.add(LintKind::UnknownName, text, fixes);
}
