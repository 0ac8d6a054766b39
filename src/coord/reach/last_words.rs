//! What a launcher says before it ends, as one sentence.
//!
//! Open MPI puts a message between two lines of dashes; its first sentence says what happened, and its last
//! line does not. Others end with the line that tells.
#![forbid(unsafe_code)]

/// Most lines of a first sentence.
const SENTENCE_LINES_MAX: usize = 4;

/// Reads lines, and remembers what was said last.
#[derive(Default)]
pub(super) struct LastWords {
    words: Option<String>,
    is_framed: bool,
    /// Lines of the first sentence of a frame; none once it has ended.
    sentence: Option<usize>,
}

impl LastWords {
    /// Hears a line; whether it is more than a frame or empty.
    pub(super) fn hear(&mut self, line: &str) -> bool {
        let is_blank = line.trim().is_empty();
        if !is_blank && line.chars().all(|letter| letter == '-' || letter == ' ') {
            self.is_framed = !self.is_framed;
            self.sentence = self.is_framed.then_some(0);
            return false;
        }
        let lines = self.sentence.unwrap_or_default();
        match (self.is_framed, is_blank) {
            (_, true) if lines > 0 => self.sentence = None,
            (_, true) => {}
            (false, false) => self.words = Some(line.to_owned()),
            (true, false) if self.sentence.is_none() || lines == SENTENCE_LINES_MAX => {}
            (true, false) => {
                let before = self.words.take().filter(|_| lines > 0);
                let before = before.map(|words| words + " ").unwrap_or_default();
                self.words = Some(before + line.trim());
                self.sentence = Some(lines + 1);
            }
        }
        !is_blank
    }

    /// The sentence that was said last.
    pub(super) fn into_words(self) -> Option<String> {
        self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(text: &str) -> Option<String> {
        let mut words = LastWords::default();
        text.lines().for_each(|line| {
            words.hear(line);
        });
        words.into_words()
    }

    #[test]
    fn a_framed_message_is_its_first_sentence() {
        let rule = "-".repeat(74);
        let message =
            format!("{rule}\nThe program refuses\nto start.\n\nIt is a bad idea.\nReally.\n{rule}");
        assert_eq!(
            last(&message).as_deref(),
            Some("The program refuses to start.")
        );
        let several =
            format!("ssh: refused\n{message}\n{rule}\nA daemon is lost.\n\nMore.\n{rule}");
        assert_eq!(last(&several).as_deref(), Some("A daemon is lost."));
        let long = format!("{rule}\na\nb\nc\nd\ne\nf\n{rule}");
        assert_eq!(last(&long).as_deref(), Some("a b c d"));
    }

    #[test]
    fn without_a_frame_it_is_the_last_line() {
        assert_eq!(last("one\ntwo\n\n").as_deref(), Some("two"));
        assert_eq!(last("\n   \n"), None);
    }

    #[test]
    fn frames_and_empty_lines_are_no_words() {
        let mut words = LastWords::default();
        assert!(!words.hear("-----"));
        assert!(!words.hear(""));
        assert!(words.hear("error"));
    }
}
