//! The line of the name of a secret: where it begins, what stands on it before the name, and whether it is the
//! header of a file with commas.
#![forbid(unsafe_code)]

/// Most columns of a file with commas.
const COLUMNS_MAX: usize = 64;
/// Commands of programs that a key and its value follow.
const CONFIGURERS: [&str; 2] = ["config set ", "configure set "];
const CONFIGURER_BYTES_MAX: usize = "configure set ".len();
/// Signs that begin and end a string.
const STRINGS: [char; 2] = ['"', '\''];

/// The line of a name, as far as the name. A line may be as long as the text and full of names, so each byte
/// is looked at once for all of them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Line {
    /// Where it begins, behind a line end or a zero byte.
    pub(super) begin: usize,
    /// Where it begins, behind `\n` alone.
    pub(super) row: usize,
    /// Where the row ends, with its `\n`.
    pub(super) row_end: usize,
    /// Cells of the row and the sign between them, if it may be the header of a file with commas or semicolons; else 0.
    pub(super) cells: (usize, char),
    /// Whether a configuring command is on it.
    pub(super) is_configured: bool,
    /// Whether a string has begun, for each sign of a string.
    in_string: [bool; STRINGS.len()],
    /// How far it was looked at.
    seen: usize,
}

impl Line {
    /// Goes on to a name; where names overlap, back to the begin of its line.
    pub(super) fn go_to(&mut self, text: &str, name: usize) {
        if name < self.seen {
            *self = Self::default();
        }
        let fresh = &text[self.seen..name];
        let begin = fresh.rfind(ends_line_char).map(|end| self.seen + end + 1);
        let from = begin.unwrap_or_else(|| {
            let cut = self.seen.saturating_sub(CONFIGURER_BYTES_MAX);
            text.floor_char_boundary(cut.max(self.begin))
        });
        self.is_configured &= begin.is_none();
        self.is_configured |= CONFIGURERS.iter().any(|set| text[from..name].contains(set));
        let counted = &text[begin.unwrap_or(self.seen)..name];
        for (is_in, sign) in self.in_string.iter_mut().zip(STRINGS) {
            *is_in = (*is_in && begin.is_none()) != (counted.matches(sign).count() % 2 == 1);
        }
        self.begin = begin.unwrap_or(self.begin);
        if name >= self.row_end {
            self.row = text[self.row_end..name]
                .rfind('\n')
                .map_or(self.row_end, |end| self.row_end + end + 1);
            let rest = text[name..].find('\n');
            self.row_end = rest.map_or(text.len(), |end| name + end + 1);
            self.cells = cells_of_header(&text[self.row..self.row_end]);
        }
        self.seen = name;
    }

    /// Whether a text begins with the quote that ends a string of the line. A line may begin inside a string, or
    /// have an apostrophe, so a quote with a value behind it begins one.
    pub(super) fn ends_string(&self, rest: &str) -> bool {
        let goes_on = |letter: char| !letter.is_whitespace() && !",;:)]}\\".contains(letter);
        let mut signs = self.in_string.iter().zip(STRINGS);
        signs.any(|(is_in, sign)| {
            let behind = rest.strip_prefix(sign).filter(|_| *is_in);
            behind.is_some_and(|behind| !behind.starts_with(goes_on))
        })
    }
}

/// The number of cells of a header and the sign between them; 0 if the line is none.
fn cells_of_header(line: &str) -> (usize, char) {
    let is_name = |cell: &str| !cell.is_empty() && cell.bytes().all(is_of_name);
    let cells = |sign: char| {
        let cells = line.trim_end().split(sign).take(COLUMNS_MAX + 1);
        let count = cells.clone().all(is_name).then(|| cells.count())?;
        (2..=COLUMNS_MAX).contains(&count).then_some((count, sign))
    };
    cells(',').or_else(|| cells(';')).unwrap_or_default()
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}

fn ends_line_char(letter: char) -> bool {
    matches!(letter, '\n' | '\r' | '\0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_line_of_a_name_is_that_of_a_search_from_the_name(
            parts in prop::collection::vec(prop::sample::select(vec![
                "x", "\u{e9}", ",", "\n", "\r", "\0", "\"", "'", "config set ", "configure ", "set ", "key", "a,b\n",
            ]), 0..40),
            ways in prop::collection::vec(0.0..1.0f64, 1..8),
        ) {
            let text = parts.concat();
            let mut line = Line::default();
            for way in ways {
                let name = text.floor_char_boundary((way * text.len() as f64) as usize);
                line.go_to(&text, name);
                let before = &text[..name];
                let begin = before.rfind(ends_line_char).map_or(0, |end| end + 1);
                let row = before.rfind('\n').map_or(0, |end| end + 1);
                let row_end = text[name..].find('\n').map_or(text.len(), |end| name + end + 1);
                let has = |set: &&str| text[begin..name].contains(*set);
                prop_assert_eq!((line.begin, line.row, line.row_end), (begin, row, row_end));
                prop_assert_eq!(line.is_configured, CONFIGURERS.iter().any(has));
                prop_assert_eq!(line.cells, cells_of_header(&text[row..row_end]));
                for (is_in, sign) in line.in_string.into_iter().zip(STRINGS) {
                    prop_assert_eq!(is_in, text[begin..name].matches(sign).count() % 2 == 1);
                }
            }
        }
    }
}
