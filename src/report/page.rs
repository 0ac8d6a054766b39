//! An HTML page and its elements: escaped text, tables and figures.
#![forbid(unsafe_code)]

use crate::columns::TextTable;
use crate::words::Language;

const STYLE: &str = include_str!("style.css");
/// The content security policy: the browser may fetch nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// The beginning of a page, up to its content.
pub(crate) fn top(title: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>tcpxctl: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
    )
}

pub(crate) const END: &str = "</main>\n</body>\n</html>\n";

/// A complete page in the style of the report.
pub(crate) fn frame(title: &str, body: &str) -> String {
    format!("{}{body}{END}", top(title))
}

/// Escapes text for HTML and XML, between tags and in quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // XML forbids these characters.
            letter if letter.is_control() && letter != '\n' && letter != '\t' => {}
            '\u{fffe}' | '\u{ffff}' => {}
            letter => safe.push(letter),
        }
    }
    safe
}

/// The text of a page while it is written.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) text: String,
    /// The language of its headings.
    pub(crate) language: Language,
}

impl Page {
    /// Adds markup without escaping it.
    pub(crate) fn raw(&mut self, markup: &str) {
        self.text.push_str(markup);
    }

    /// Adds escaped text inside a tag; `tag` may have attributes.
    pub(crate) fn tag(&mut self, tag: &str, text: &str) {
        let name = tag.split(' ').next().unwrap_or(tag);
        self.raw(&format!("<{tag}>{}</{name}>\n", escape(text)));
    }

    /// Adds a heading with an id that links can point to.
    pub(crate) fn section(&mut self, id: &str, title: &str) {
        let title = escape(self.language.heading(title));
        self.raw(&format!("<h2 id=\"{id}\">{title}</h2>\n"));
    }

    /// Adds a heading within a section.
    pub(crate) fn heading(&mut self, title: &str) {
        self.tag("h3", self.language.heading(title));
    }

    /// Adds a chart with its caption.
    pub(crate) fn figure(&mut self, caption: &str, about: &str, svg: &str) {
        let (caption, about) = (escape(caption), escape(about));
        self.raw(&format!(
            "<figure><figcaption>{caption} <small>{about}</small></figcaption>{svg}</figure>\n"
        ));
    }

    /// Adds a table. A column whose name starts with `#` is aligned as numbers.
    pub(crate) fn table(&mut self, class: &str, columns: &[&str], rows: &[HtmlRow]) {
        self.raw(&format!(
            "<div class=\"wide\"><table class=\"{class}\"><thead><tr>"
        ));
        for column in columns {
            let number = if column.starts_with('#') {
                " class=\"n\""
            } else {
                ""
            };
            self.raw(&format!(
                "<th{number}>{}</th>",
                escape(column.trim_start_matches('#'))
            ));
        }
        self.raw("</tr></thead><tbody>\n");
        for row in rows {
            self.raw(if row.marked {
                "<tr class=\"differs\">"
            } else {
                "<tr>"
            });
            for (cell, column) in row.cells.iter().zip(columns) {
                let number = if column.starts_with('#') {
                    " class=\"n\""
                } else {
                    ""
                };
                self.raw(&format!("<td{number}>{}</td>", escape(cell)));
            }
            self.raw("</tr>\n");
        }
        self.raw("</tbody></table></div>\n");
    }

    /// Adds a results or counters table.
    pub(crate) fn columns(&mut self, table: TextTable) {
        let heads = table.heads.iter().zip(&table.is_number);
        let heads: Vec<String> = heads
            .map(|(head, is_number)| {
                if *is_number {
                    format!("#{head}")
                } else {
                    (*head).to_owned()
                }
            })
            .collect();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let rows: Vec<HtmlRow> = table
            .rows
            .into_iter()
            .map(|cells| HtmlRow {
                cells,
                marked: false,
            })
            .collect();
        self.table("", &heads, &rows);
    }

    /// Adds a section that the reader can fold and unfold.
    pub(crate) fn folded(&mut self, summary: &str, open: bool, inside: impl FnOnce(&mut Self)) {
        let open = if open { " open" } else { "" };
        self.raw(&format!(
            "<details{open}><summary>{}</summary>\n",
            escape(summary)
        ));
        inside(self);
        self.raw("</details>\n");
    }
}

/// One row of an HTML table.
#[derive(Default)]
pub(crate) struct HtmlRow {
    pub(crate) cells: Vec<String>,
    /// Whether the row is highlighted.
    pub(crate) marked: bool,
}

impl<const N: usize> From<[String; N]> for HtmlRow {
    fn from(cells: [String; N]) -> Self {
        Self {
            cells: cells.into(),
            marked: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn escaped_text_is_never_markup() {
        assert_eq!(
            escape("<script>\"&'\u{1b}x"),
            "&lt;script&gt;&quot;&amp;&#39;x"
        );
    }
}
