//! Values behind the words of a line.
#![forbid(unsafe_code)]

use super::line::Occupancy;
use memchr::memmem;

/// Longest part of a line that is read; the programs' lines are shorter.
const READ_MAX: usize = 1024;
/// Longest number, in bytes.
const NUMBER_MAX: usize = 32;

/// A part of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self(&line[..line.len().min(READ_MAX)])
    }

    pub(super) fn has(self, words: &str) -> bool {
        memmem::find(self.0, words.as_bytes()).is_some()
    }

    pub(super) fn has_any(self, words: &[&str]) -> bool {
        words.iter().any(|words| self.has(words))
    }

    pub(super) fn is(self, word: &str) -> bool {
        self.0 == word.as_bytes()
    }

    /// What follows the first `key`.
    pub(super) fn after(self, key: &str) -> Option<Self> {
        let at = memmem::find(self.0, key.as_bytes())?;
        Some(Self(&self.0[at + key.len()..]))
    }

    /// The parts before and after the first `key`.
    pub(super) fn split(self, key: &str) -> Option<(Self, Self)> {
        let at = memmem::find(self.0, key.as_bytes())?;
        Some((Self(&self.0[..at]), Self(&self.0[at + key.len()..])))
    }

    pub(super) fn trim(self) -> Self {
        Self(self.0.trim_ascii())
    }

    pub(super) fn words(self) -> impl Iterator<Item = Self> {
        let words = self.0.split(u8::is_ascii_whitespace);
        words.filter(|word| !word.is_empty()).map(Self)
    }

    /// The first number directly behind one of the `key`s.
    pub(super) fn long(self, key: &str) -> Option<u64> {
        let mut rest = self;
        while let Some(behind) = rest.after(key) {
            if let Some((number, _)) = behind.digits() {
                return Some(number);
            }
            rest = behind;
        }
        None
    }

    pub(super) fn number(self, key: &str) -> Option<u32> {
        u32::try_from(self.long(key)?).ok()
    }

    /// The number behind the last `key`.
    pub(super) fn last_number(self, key: &str) -> Option<u32> {
        let at = memmem::rfind(self.0, key.as_bytes())?;
        let (number, _) = Self(&self.0[at + key.len()..]).digits()?;
        u32::try_from(number).ok()
    }

    pub(super) fn signed(self, key: &str) -> Option<i64> {
        let behind = self.after(key)?;
        let (sign, digits) = match behind.0.split_first() {
            Some((b'-', digits)) => (-1, Self(digits)),
            _ => (1, behind),
        };
        i64::try_from(digits.digits()?.0)
            .ok()
            .map(|number| sign * number)
    }

    pub(super) fn decimal(self, key: &str) -> Option<f64> {
        self.after(key)?.float()
    }

    /// `3/16`.
    pub(super) fn pair(self, key: &str) -> Option<Occupancy> {
        let (count, rest) = self.after(key)?.digits()?;
        let (size, _) = rest.after_slash()?.digits()?;
        occupancy(count, size)
    }

    /// `4+12/16`: the sum and the size.
    pub(super) fn sum_pair(self, key: &str) -> Option<Occupancy> {
        let (first, rest) = self.after(key)?.digits()?;
        let Some(more) = rest.0.strip_prefix(b"+") else {
            return self.pair(key);
        };
        let (second, rest) = Self(more).digits()?;
        let (size, _) = rest.after_slash()?.digits()?;
        occupancy(first.checked_add(second)?, size)
    }

    /// The number at the start, after blanks.
    pub(super) fn float(self) -> Option<f64> {
        let text = self.0.trim_ascii_start();
        let is_in = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'-' | b'+');
        let size = text.iter().take(NUMBER_MAX).take_while(is_in).count();
        let number: f64 = std::str::from_utf8(&text[..size]).ok()?.parse().ok()?;
        (number.is_finite() && number >= 0.0).then_some(number)
    }

    /// A word that is a number and nothing else.
    pub(super) fn number_alone(self) -> Option<f64> {
        let is_in = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'-' | b'+');
        self.float()
            .filter(|_| self.0.len() <= NUMBER_MAX && self.0.iter().all(is_in))
    }

    fn after_slash(self) -> Option<Self> {
        self.0.strip_prefix(b"/").map(Self)
    }

    fn digits(self) -> Option<(u64, Self)> {
        let size = self
            .0
            .iter()
            .take(NUMBER_MAX)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let (digits, rest) = self.0.split_at(size);
        let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
        Some((number, Self(rest)))
    }
}

fn occupancy(count: u64, size: u64) -> Option<Occupancy> {
    Some((u32::try_from(count).ok()?, u32::try_from(size).ok()?))
}
