//! A comparison as text, Markdown, and HTML with plots.
#![forbid(unsafe_code)]

use super::measured::Measured;
use super::statistics::{Comparison, MetricComparison, MetricVerdict, RULE};
use crate::chart::{Dot, dots};
use crate::markdown::inline;
use crate::page::{escape, frame};
use std::fmt::Write;

/// Maximum samples of one result in a plot.
const DOTS_MAX: usize = 400;

fn cells(compared: &Comparison, row: &MetricComparison) -> [String; 8] {
    let spread = |[median, low, high]: [f64; 3]| match low == high {
        true => figure(median),
        false => format!("{} [{}, {}]", figure(median), figure(low), figure(high)),
    };
    [
        format!("{} ({})", row.metric, row.unit),
        compared
            .results
            .get(row.result)
            .map(|one| one.name.clone())
            .unwrap_or_default(),
        spread(row.reference),
        spread(row.other),
        row.change
            .map_or("-".to_owned(), |change| format!("{:+.1}%", change * 100.0)),
        row.p.map_or("-".to_owned(), |p| {
            if p < 0.001 {
                "<0.001".to_owned()
            } else {
                format!("{p:.3}")
            }
        }),
        row.verdict.name().to_owned(),
        if row.gates { "yes" } else { "no" }.to_owned(),
    ]
}

fn figure(value: f64) -> String {
    if value.abs() >= 1000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}

const COLUMNS: [&str; 8] = [
    "metric",
    "result",
    "reference [quartiles]",
    "median [quartiles]",
    "change",
    "p",
    "verdict",
    "gates",
];

/// The comparison for a terminal: `columns` renders the table from its heads and rows, and all
/// other lines start with `#`.
pub fn compared_text(
    compared: &Comparison,
    mut columns: impl FnMut(&[&str], &[[String; 8]]) -> String,
) -> String {
    let mut text = String::new();
    for (index, one) in compared.results.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "# {} : {} ({}, {})",
            if index == 0 { "reference" } else { "result" },
            one.name,
            one.tool,
            one.source
        );
    }
    for (name, values) in &compared.settings {
        let _ = writeln!(text, "# differs : {name} = {}", shown(values).join(" | "));
    }
    match compared.rows.is_empty() {
        true => text.push_str("# nothing to compare : the results have no metric in common\n"),
        false => {
            let rows: Vec<[String; 8]> = compared
                .rows
                .iter()
                .map(|row| cells(compared, row))
                .collect();
            text.push_str(&columns(&COLUMNS, &rows));
        }
    }
    let worse = compared.regressions().count();
    let _ = writeln!(
        text,
        "# Tolerance : {:.1} %; {worse} gating metrics are worse",
        compared.tolerance * 100.0
    );
    text
}

fn shown(values: &[Option<String>]) -> Vec<String> {
    values
        .iter()
        .map(|value| value.clone().unwrap_or_else(|| "-".to_owned()))
        .collect()
}

/// The comparison as Markdown tables.
pub fn compared_markdown(compared: &Comparison) -> String {
    let mut text = String::from("# Comparison\n\n");
    for (index, one) in compared.results.iter().enumerate() {
        let _ = writeln!(
            text,
            "* {}: **{}** ({}, {})",
            if index == 0 { "reference" } else { "result" },
            inline(&one.name),
            one.tool,
            inline(&one.source)
        );
    }
    let _ = writeln!(
        text,
        "\n| {} |\n|{}",
        COLUMNS.join(" | "),
        "---|".repeat(COLUMNS.len())
    );
    for row in &compared.rows {
        let row: Vec<String> = cells(compared, row)
            .iter()
            .map(|cell| inline(cell))
            .collect();
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    if !compared.settings.is_empty() {
        let names: Vec<String> = compared
            .results
            .iter()
            .map(|one| inline(&one.name))
            .collect();
        let _ = writeln!(
            text,
            "\n| differs | {} |\n|{}",
            names.join(" | "),
            "---|".repeat(names.len() + 1)
        );
        for (name, values) in &compared.settings {
            let values: Vec<String> = shown(values).iter().map(|value| inline(value)).collect();
            let _ = writeln!(text, "| {} | {} |", inline(name), values.join(" | "));
        }
    }
    let _ = writeln!(
        text,
        "\nTolerance {:.1} %. {RULE}",
        compared.tolerance * 100.0
    );
    text
}

/// The comparison as an HTML page, with a plot of each metric that several results have.
pub fn compared_html(compared: &Comparison) -> String {
    let worse = compared.regressions().count();
    let (tone, word) = if worse > 0 {
        ("bad", "✗ WORSE")
    } else {
        ("good", "✓ NOT WORSE")
    };
    let mut body = format!(
        "<header class=\"verdict {tone}\"><strong>{word}</strong><p>{worse} gating metrics are worse than {}, by more than {:.1} % and more than chance.</p></header>\n",
        escape(
            compared
                .results
                .first()
                .map_or("the reference", |one| one.name.as_str())
        ),
        compared.tolerance * 100.0
    );
    let row = |cells: &[String], marked: bool| {
        let cells: String = cells
            .iter()
            .map(|cell| format!("<td>{}</td>", escape(cell)))
            .collect();
        format!(
            "<tr{}>{cells}</tr>\n",
            if marked { " class=\"differs\"" } else { "" }
        )
    };
    let head = |names: &[String]| {
        names
            .iter()
            .map(|name| format!("<th>{}</th>", escape(name)))
            .collect::<String>()
    };
    let rows: String = compared
        .rows
        .iter()
        .map(|one| row(&cells(compared, one), one.verdict != MetricVerdict::Noise))
        .collect();
    let _ = writeln!(
        body,
        "<h2>Metrics</h2><div class=\"wide\"><table><tr>{}</tr>{rows}</table></div>",
        head(&COLUMNS.map(str::to_owned))
    );
    if let Some(reference) = compared.results.first() {
        let shared = |name: &&String| compared.rows.iter().any(|row| row.metric == **name);
        reference
            .metrics
            .keys()
            .filter(shared)
            .for_each(|name| body.push_str(&plot(compared, name)));
    }
    if !compared.settings.is_empty() {
        let mut names = vec!["setting".to_owned()];
        names.extend(compared.results.iter().map(|one| one.name.clone()));
        let rows: String = compared
            .settings
            .iter()
            .map(|(name, values)| {
                let mut cells = vec![name.clone()];
                cells.extend(shown(values));
                row(&cells, false)
            })
            .collect();
        let _ = writeln!(
            body,
            "<h2>Settings that differ</h2><div class=\"wide\"><table class=\"nodes\"><tr>{}</tr>{rows}</table></div>",
            head(&names)
        );
    }
    let _ = writeln!(body, "<footer><p>{}</p></footer>", escape(RULE));
    frame("comparison", &body)
}

/// A plot of one metric: a column of dots for each result, and a line at each median.
fn plot(compared: &Comparison, name: &str) -> String {
    let with: Vec<(usize, &Measured)> = compared
        .results
        .iter()
        .enumerate()
        .filter(|(_, one)| one.metrics.contains_key(name))
        .collect();
    let Some(unit) = with
        .first()
        .and_then(|(_, one)| Some(one.metrics.get(name)?.unit.clone()))
    else {
        return String::new();
    };
    let mut all = Vec::new();
    let mut medians = Vec::new();
    for (index, one) in &with {
        let Some(metric) = one.metrics.get(name) else {
            continue;
        };
        let count = metric.samples.len().clamp(1, DOTS_MAX) as f64;
        // The samples of a result stand side by side in the order of measurement.
        let place = |sample: usize| *index as f64 + 0.7 * ((sample as f64 + 0.5) / count - 0.5);
        all.extend(
            metric
                .samples
                .iter()
                .take(DOTS_MAX)
                .enumerate()
                .map(|(at, value)| Dot {
                    x: place(at),
                    y: *value,
                    hollow: *index == 0,
                }),
        );
        medians.extend(
            super::statistics::quartiles(&metric.samples)
                .map(|[median, ..]| (format!("{}:", short(&one.name)), median)),
        );
    }
    let marks: Vec<(f64, String)> = with
        .iter()
        .map(|(index, one)| (*index as f64, short(&one.name)))
        .collect();
    let svg = dots(
        name,
        &unit,
        "samples in the order of measurement; hollow: the reference",
        &all,
        &medians,
        &marks,
    );
    format!(
        "<figure><figcaption>{}</figcaption>{svg}</figure>\n",
        escape(name)
    )
}

fn short(name: &str) -> String {
    match name.char_indices().nth(18) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}
