//! Colours and glyphs, with fallbacks for terminals without colour and for plain ASCII.
//!
//! The colours are the Okabe-Ito palette, as close as 256 colours come to it. It can be read
//! with any colour vision, on dark and light backgrounds. No meaning depends on colour alone: a
//! glyph or a word says the same.
#![forbid(unsafe_code)]

use ratatui::style::{Color, Modifier, Style};

/// Whether the view uses colours and Unicode glyphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// Use colours; otherwise bold and reverse video.
    pub color: bool,
    /// Use only ASCII characters.
    pub ascii: bool,
}

/// The meaning of a text, which decides its style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    Plain,
    /// Less important text: frames, units, labels.
    Faint,
    Strong,
    /// Column names, titles of panes.
    Title,
    Posted,
    /// Done and not yet unpacked or consumed.
    Done,
    /// Unpacked and not yet consumed.
    Unpacked,
    Good,
    Warn,
    Bad,
    Selected,
    GoodBanner,
    QuietBanner,
    WarnBanner,
    BadBanner,
}

const SKY: Color = Color::Indexed(74);
const ORANGE: Color = Color::Indexed(214);
const GREEN: Color = Color::Indexed(36);
const VERMILION: Color = Color::Indexed(202);
const PURPLE: Color = Color::Indexed(175);
const GREY: Color = Color::Indexed(245);
const BLACK: Color = Color::Indexed(16);
const WHITE: Color = Color::Indexed(231);

impl Theme {
    pub(crate) fn style(self, ink: Ink) -> Style {
        let plain = Style::new();
        if !self.color {
            return match ink {
                Ink::Faint => plain.add_modifier(Modifier::DIM),
                Ink::Strong | Ink::Title | Ink::Done | Ink::Warn => {
                    plain.add_modifier(Modifier::BOLD)
                }
                Ink::Bad => plain.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
                Ink::Selected | Ink::BadBanner | Ink::WarnBanner => {
                    plain.add_modifier(Modifier::REVERSED)
                }
                Ink::GoodBanner | Ink::QuietBanner => plain.add_modifier(Modifier::BOLD),
                Ink::Plain | Ink::Posted | Ink::Unpacked | Ink::Good => plain,
            };
        }
        match ink {
            Ink::Plain => plain,
            Ink::Faint => plain.fg(GREY),
            Ink::Strong => plain.add_modifier(Modifier::BOLD),
            Ink::Title => plain.fg(SKY).add_modifier(Modifier::BOLD),
            Ink::Posted => plain.fg(SKY),
            Ink::Done => plain.fg(ORANGE),
            Ink::Unpacked => plain.fg(PURPLE),
            Ink::Good => plain.fg(GREEN),
            Ink::Warn => plain.fg(ORANGE).add_modifier(Modifier::BOLD),
            Ink::Bad => plain.fg(VERMILION).add_modifier(Modifier::BOLD),
            Ink::Selected => plain.bg(Color::Indexed(238)).fg(WHITE),
            Ink::GoodBanner => plain.bg(GREEN).fg(BLACK).add_modifier(Modifier::BOLD),
            Ink::QuietBanner => plain.bg(Color::Indexed(240)).fg(WHITE),
            Ink::WarnBanner => plain.bg(ORANGE).fg(BLACK).add_modifier(Modifier::BOLD),
            Ink::BadBanner => plain.bg(VERMILION).fg(BLACK).add_modifier(Modifier::BOLD),
        }
    }

    fn either(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.ascii { ascii } else { unicode }
    }

    /// The glyph of a request in flight, by the letter of its stage. Any other letter is a free
    /// slot.
    pub(crate) fn slot(self, stage: char) -> (&'static str, Ink) {
        match stage {
            'd' => (self.either("█", "#"), Ink::Done),
            'u' => (self.either("▓", "+"), Ink::Unpacked),
            'p' => (self.either("▒", "="), Ink::Posted),
            _ => (self.either("·", "."), Ink::Faint),
        }
    }

    /// A vertical bar for a share of 0 to 1.
    pub(crate) fn spark(self, share: f64) -> &'static str {
        let steps = if self.ascii {
            [" ", ".", ".", ":", "-", "=", "+", "#", "#"]
        } else {
            [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]
        };
        let step = if share > 0.0 {
            (share * 8.0).ceil().clamp(1.0, 8.0) as usize
        } else {
            0
        };
        steps[step]
    }

    pub(crate) fn rule(self) -> &'static str {
        self.either("─", "-")
    }

    pub(crate) fn open(self) -> &'static str {
        self.either("▾", "-")
    }

    pub(crate) fn shut(self) -> &'static str {
        self.either("▸", "+")
    }

    pub(crate) fn cursor(self) -> &'static str {
        self.either("▌", ">")
    }

    pub(crate) fn dot(self) -> &'static str {
        self.either("·", "-")
    }

    pub(crate) fn up(self) -> &'static str {
        self.either("↑", "^")
    }

    pub(crate) fn down(self) -> &'static str {
        self.either("↓", "v")
    }
}
