//! Each channel over time as CSV: one row for each channel and part of the time axis.
#![forbid(unsafe_code)]

use super::Story;
use std::fmt::Write;

/// RFC 4180, with a header. A cell is empty where there is no sample.
pub(crate) fn csv(story: &Story) -> String {
    let mut text =
        String::from("node,side,channel,interface,from_ms,to_ms,bytes,gb_per_s,in_flight_max\r\n");
    let axis = story.axis;
    let part_ms = (axis.to_ms - axis.from_ms) / axis.parts.max(1) as f64;
    for series in &story.series {
        let head = format!(
            "{},{},{},{}",
            cell(&series.worker.name),
            series.side,
            series.index,
            cell(&series.dev)
        );
        for (part, (bytes, in_flight)) in series.bytes.iter().zip(&series.in_flight).enumerate() {
            let from = axis.from_ms + part as f64 * part_ms;
            let rate = bytes
                .map(|bytes| format!("{:.6}", bytes as f64 / part_ms / 1e6))
                .unwrap_or_default();
            let number =
                |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
            let (bytes, in_flight) = (number(*bytes), number(in_flight.map(u64::from)));
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{head},{from:.3},{:.3},{bytes},{rate},{in_flight}\r",
                from + part_ms
            );
        }
    }
    text
}

/// A quoted cell that no spreadsheet treats as a formula.
pub(super) fn cell(text: &str) -> String {
    let text = match text.chars().next() {
        Some('=' | '+' | '-' | '@') => format!("'{text}"),
        _ => text.to_owned(),
    };
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn cells_are_quoted_and_never_formulas() {
        for (text, expected) in [
            ("eth1", "eth1"),
            ("a,b", "\"a,b\""),
            ("=1+1", "'=1+1"),
            ("say \"x\"", "\"say \"\"x\"\"\""),
        ] {
            assert_eq!(cell(text), expected);
        }
    }
}
