//! The keys of the view. Where htop and trippy have a key for the same action, it is the same.
//!
//! Not here: the mouse. Terminals send the wheel as arrow keys on the alternate screen, and
//! capturing the mouse would prevent selecting text.
#![forbid(unsafe_code)]

use super::view::{PANES, Pane};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// An action that a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    Quit,
    /// Ctrl-C.
    Interrupt,
    Suspend,
    Redraw,
    Help,
    Up(usize),
    Down(usize),
    PageUp,
    PageDown,
    First,
    Last,
    /// Pause, or resume.
    Pause,
    Back(usize),
    Forward(usize),
    Oldest,
    Now,
    ToStall,
    MarkBefore,
    MarkAfter,
    SortNext,
    SortBefore,
    Reverse,
    Groups,
    Collapse,
    CollapseAll,
    NextTrouble,
    Show(&'static Pane),
    NextPane,
    Open,
    Close,
    Zoom,
    Filter,
    Type(char),
    Erase,
    Accept,
    Ascii,
    Screenshot,
}

/// The action of a key. `typing` is whether the filter is being typed.
pub(crate) fn message(key: KeyEvent, typing: bool) -> Option<Message> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return Some(match key.code {
            KeyCode::Char('c') => Message::Interrupt,
            KeyCode::Char('z') => Message::Suspend,
            KeyCode::Char('l') => Message::Redraw,
            KeyCode::Char('u') | KeyCode::Char('b') => Message::PageUp,
            KeyCode::Char('d') | KeyCode::Char('f') => Message::PageDown,
            KeyCode::Home => Message::Oldest,
            KeyCode::End => Message::Now,
            KeyCode::Left => Message::Back(10),
            KeyCode::Right => Message::Forward(10),
            _ => return None,
        });
    }
    if typing {
        return Some(match key.code {
            KeyCode::Enter => Message::Accept,
            KeyCode::Esc => Message::Close,
            KeyCode::Backspace => Message::Erase,
            KeyCode::Char(c) => Message::Type(c),
            KeyCode::Up => Message::Up(1),
            KeyCode::Down => Message::Down(1),
            _ => return None,
        });
    }
    let many = if key.modifiers.contains(KeyModifiers::SHIFT) {
        10
    } else {
        1
    };
    Some(match key.code {
        KeyCode::Char('q') | KeyCode::F(10) => Message::Quit,
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => Message::Help,
        KeyCode::Up | KeyCode::Char('k') => Message::Up(1),
        KeyCode::Down | KeyCode::Char('j') => Message::Down(1),
        KeyCode::PageUp => Message::PageUp,
        KeyCode::PageDown => Message::PageDown,
        KeyCode::Home | KeyCode::Char('g') => Message::First,
        KeyCode::End | KeyCode::Char('G') => Message::Last,
        KeyCode::Char(' ') => Message::Pause,
        KeyCode::Left | KeyCode::Char(',') => Message::Back(many),
        KeyCode::Right | KeyCode::Char('.') => Message::Forward(many),
        KeyCode::Char('0') => Message::Oldest,
        KeyCode::Char('$') => Message::Now,
        KeyCode::Char('s') => Message::ToStall,
        KeyCode::Char('[') => Message::MarkBefore,
        KeyCode::Char(']') => Message::MarkAfter,
        KeyCode::Char('>') | KeyCode::F(6) => Message::SortNext,
        KeyCode::Char('<') => Message::SortBefore,
        KeyCode::Char('r') => Message::Reverse,
        KeyCode::Char('t') | KeyCode::F(5) => Message::Groups,
        KeyCode::Char('c' | '-' | '+') => Message::Collapse,
        KeyCode::Char('C') => Message::CollapseAll,
        KeyCode::Char('n') => Message::NextTrouble,
        KeyCode::Tab => Message::NextPane,
        KeyCode::Enter => Message::Open,
        KeyCode::Esc => Message::Close,
        KeyCode::Char('z') => Message::Zoom,
        KeyCode::Char('/') | KeyCode::F(4) => Message::Filter,
        KeyCode::Char('a') => Message::Ascii,
        KeyCode::Char('p') => Message::Screenshot,
        KeyCode::Char(key) => Message::Show(PANES.iter().find(|pane| pane.key == key)?),
        _ => return None,
    })
}

/// Keys and descriptions for the help overlay.
pub(crate) fn help() -> Vec<(String, String)> {
    let (of_channel, others): (Vec<&Pane>, Vec<&Pane>) =
        PANES.iter().partition(|pane| pane.is_of_channel);
    let list = |panes: &[&Pane], what: fn(&Pane) -> String, between: &str| {
        panes
            .iter()
            .map(|pane| what(pane))
            .collect::<Vec<_>>()
            .join(between)
    };
    let (key, shows) = (
        |pane: &Pane| pane.key.to_string(),
        |pane: &Pane| pane.shows.to_owned(),
    );
    let mut help = vec![
        (
            "Up Down PgUp PgDn g G".to_owned(),
            "move the cursor".to_owned(),
        ),
        (
            format!("Enter {}", list(&of_channel, key, " ")),
            format!("{}; Esc closes", list(&of_channel, shows, ", ")),
        ),
        (
            format!("{} Tab z", list(&others, key, " ")),
            format!("{}, next pane, maximize pane", list(&others, shows, ", ")),
        ),
    ];
    help.extend(
        HELP.iter()
            .map(|(keys, words)| ((*keys).to_owned(), (*words).to_owned())),
    );
    help
}

const HELP: &[(&str, &str)] = &[
    ("Arrows Enter Esc", "mesh: choose a pair, open it, go back"),
    ("Space", "pause, resume"),
    ("Left Right (Shift: 10)", "step one sample back, forward"),
    ("s", "go to the stall"),
    ("[ ]", "previous, next mark (stall or phase)"),
    ("0 $", "go to the oldest sample, to now"),
    ("< > r", "sort by the previous, next column; reverse"),
    ("t c C", "grouping on or off; collapse one, all"),
    ("n", "next stuck, waiting or failing channel"),
    ("/", "filter by words, e.g. `peer recv eth1 stuck`"),
    ("a", "ASCII glyphs on or off"),
    ("p", "save the screen as text, ANSI and SVG"),
    ("Ctrl-Z Ctrl-L", "suspend, redraw"),
    ("q", "quit"),
];
