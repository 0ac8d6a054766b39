//! Values behind the words of a line.
#![forbid(unsafe_code)]

use super::line::Occupancy;
use memchr::{memchr_iter, memmem};

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
        find(self.0, words).is_some()
    }

    pub(super) fn has_any(self, words: &[&str]) -> bool {
        words.iter().any(|words| self.has(words))
    }

    pub(super) fn is(self, word: &str) -> bool {
        self.0 == word.as_bytes()
    }

    /// What follows the first `key`.
    pub(super) fn after(self, key: &str) -> Option<Self> {
        let at = find(self.0, key)?;
        Some(Self(&self.0[at + key.len()..]))
    }

    /// The parts before and after the first `key`.
    pub(super) fn split(self, key: &str) -> Option<(Self, Self)> {
        let at = find(self.0, key)?;
        Some((Self(&self.0[..at]), Self(&self.0[at + key.len()..])))
    }

    pub(super) fn trim(self) -> Self {
        Self(self.0.trim_ascii())
    }

    pub(super) fn words(self) -> impl Iterator<Item = Self> {
        let words = self.0.split(u8::is_ascii_whitespace);
        words.filter(|word| !word.is_empty()).map(Self)
    }

    /// The digits of the first number directly behind one of the `key`s.
    pub(super) fn digits(self, key: &str) -> Option<&'a [u8]> {
        let mut rest = self;
        while let Some(behind) = rest.after(key) {
            if let Some((digits, _)) = behind.split_digits() {
                return Some(digits);
            }
            rest = behind;
        }
        None
    }

    /// The first number directly behind one of the `key`s. This and the other numbers are
    /// never too large: the greatest of their type stands for greater ones.
    pub(super) fn long(self, key: &str) -> Option<u64> {
        self.digits(key).map(value)
    }

    pub(super) fn number(self, key: &str) -> Option<u32> {
        self.long(key).map(clamped)
    }

    /// The number behind the last `key`.
    pub(super) fn last_number(self, key: &str) -> Option<u32> {
        let at = memmem::rfind(self.0, key.as_bytes())?;
        let (number, _) = Self(&self.0[at + key.len()..]).leading()?;
        Some(clamped(number))
    }

    pub(super) fn signed(self, key: &str) -> Option<i64> {
        let behind = self.after(key)?;
        let (sign, digits) = match behind.0.split_first() {
            Some((b'-', digits)) => (-1, Self(digits)),
            _ => (1, behind),
        };
        let number = i64::try_from(digits.leading()?.0).unwrap_or(i64::MAX);
        Some(sign * number)
    }

    pub(super) fn decimal(self, key: &str) -> Option<f64> {
        self.after(key)?.float()
    }

    /// `3/16`.
    pub(super) fn pair(self, key: &str) -> Option<Occupancy> {
        let (count, rest) = self.after(key)?.leading()?;
        let (size, _) = rest.after_slash()?.leading()?;
        Some((clamped(count), clamped(size)))
    }

    /// `4+12/16`: the sum and the size.
    pub(super) fn sum_pair(self, key: &str) -> Option<Occupancy> {
        let (first, rest) = self.after(key)?.leading()?;
        let Some(more) = rest.0.strip_prefix(b"+") else {
            return self.pair(key);
        };
        let (second, rest) = Self(more).leading()?;
        let (size, _) = rest.after_slash()?.leading()?;
        Some((clamped(first.saturating_add(second)), clamped(size)))
    }

    /// The number at the start, after blanks.
    pub(super) fn float(self) -> Option<f64> {
        let text = self.0.trim_ascii_start();
        let is_in = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'-' | b'+');
        let size = text.iter().take(NUMBER_MAX).take_while(is_in).count();
        let number: f64 = std::str::from_utf8(&text[..size]).ok()?.parse().ok()?;
        (number >= 0.0).then_some(number.min(f64::MAX))
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

    /// The number at the start, and what follows.
    fn leading(self) -> Option<(u64, Self)> {
        let (digits, rest) = self.split_digits()?;
        Some((value(digits), rest))
    }

    fn split_digits(self) -> Option<(&'a [u8], Self)> {
        let digits = self.0.iter().take(NUMBER_MAX);
        let size = digits.take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(size);
        (size > 0).then_some((digits, Self(rest)))
    }
}

/// The offset of the first `words`. Lines are short, so preparing a search would take longer
/// than this one.
fn find(text: &[u8], words: &str) -> Option<usize> {
    let Some((&first, others)) = words.as_bytes().split_first() else {
        return Some(0);
    };
    memchr_iter(first, text).find(|at| text[at + 1..].starts_with(others))
}

fn value(digits: &[u8]) -> u64 {
    let add = |value: u64, digit: &u8| {
        let digit = u64::from(digit - b'0');
        value.saturating_mul(10).saturating_add(digit)
    };
    digits.iter().fold(0, add)
}

fn clamped(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
