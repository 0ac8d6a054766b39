//! Sweeps: a list in place of a single value is one scenario per value, and several lists are one
//! scenario per combination.
#![forbid(unsafe_code)]

use super::error::{ScenarioError, printable};
use super::file::{Sources, Tree};
use std::ops::Range;
use toml::Spanned;
use toml::de::DeValue;

/// Most combinations of one sweep.
pub(crate) const POINTS_MAX: usize = 1000;

/// A key that takes several values.
struct Axis<'a> {
    path: Vec<String>,
    span: Range<usize>,
    values: Vec<Spanned<DeValue<'a>>>,
}

/// Whether a list under this key is a sweep. Elsewhere a list is a value.
pub(super) fn may_sweep(path: &[impl AsRef<str>]) -> bool {
    let path: Vec<&str> = path.iter().map(AsRef::as_ref).collect();
    matches!(
        path.as_slice(),
        [
            "transfer" | "traffic" | "progress" | "plugin" | "limits" | "fault",
            _
        ] | ["topology", "processes"]
            | ["env", ..]
    )
}

/// The tables without lists, one at a time, each with its name, such as
/// `connections=4 chunk=512KiB`; the first key in the file changes slowest.
pub(super) fn expand<'a>(
    tree: Tree<'a>,
    sources: &Sources,
) -> Result<impl Iterator<Item = (String, Tree<'a>)> + use<'a>, ScenarioError> {
    let mut axes = Vec::new();
    find(&tree, &mut Vec::new(), &mut axes);
    axes.sort_by_key(|axis| axis.span.start);
    let mut count = 1usize;
    for axis in &axes {
        count = count.saturating_mul(axis.values.len());
        let label = match axis.values.len() {
            0 => "expected at least one value".to_owned(),
            _ if count > POINTS_MAX => {
                format!("{count} combinations; the limit is {POINTS_MAX}")
            }
            _ => continue,
        };
        let title = format!("`{}` cannot be swept over this list", axis.path.join("."));
        return Err(ScenarioError::written(
            sources.place(&axis.span),
            title,
            label,
            None,
        ));
    }
    Ok((0..count).map(move |number| point(&tree, &axes, number)))
}

fn find<'a>(tree: &Tree<'a>, path: &mut Vec<String>, axes: &mut Vec<Axis<'a>>) {
    for (key, value) in tree {
        path.push(key.get_ref().to_string());
        match value.get_ref() {
            DeValue::Array(items) if may_sweep(path) => {
                axes.push(Axis {
                    path: path.clone(),
                    span: value.span(),
                    values: items.to_vec(),
                });
            }
            DeValue::Table(table) => find(table, path, axes),
            _ => {}
        }
        path.pop();
    }
}

fn point<'a>(tree: &Tree<'a>, axes: &[Axis<'a>], number: usize) -> (String, Tree<'a>) {
    let mut tree = tree.clone();
    let mut names = Vec::new();
    let mut below = number;
    for axis in axes.iter().rev() {
        let value = axis.values[below % axis.values.len()].clone();
        below /= axis.values.len();
        names.push(format!(
            "{}={}",
            short_name(axis, axes),
            shown(value.get_ref())
        ));
        put(&mut tree, &axis.path, value);
    }
    names.reverse();
    (names.join(" "), tree)
}

/// The last part of the key, unless another axis ends in the same one.
fn short_name(axis: &Axis<'_>, axes: &[Axis<'_>]) -> String {
    let last = axis.path.last();
    let is_alone = axes
        .iter()
        .filter(|other| other.path.last() == last)
        .count()
        == 1;
    let name = last
        .filter(|_| is_alone)
        .cloned()
        .unwrap_or_else(|| axis.path.join("."));
    printable(&name, 60)
}

fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => printable(text, 40),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => "?".to_owned(),
    }
}

fn put<'a>(tree: &mut Tree<'a>, path: &[String], value: Spanned<DeValue<'a>>) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    let Some(slot) = tree.get_mut(first.as_str()) else {
        return;
    };
    match slot.get_mut() {
        DeValue::Table(table) if !rest.is_empty() => put(table, rest, value),
        _ => *slot = value,
    }
}
