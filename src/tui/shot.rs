//! The screen as text, as text with ANSI colours, and as SVG.
#![forbid(unsafe_code)]

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// The screen as text, without trailing blanks.
pub fn text(buffer: &Buffer) -> String {
    lines(buffer).fold(String::new(), |mut all, line| {
        let line: String = line.map(Cell::symbol).collect();
        all.push_str(line.trim_end());
        all.push('\n');
        all
    })
}

/// The screen as text with SGR sequences.
pub fn ansi(buffer: &Buffer) -> String {
    let mut all = String::new();
    for line in lines(buffer) {
        let mut last = String::new();
        for cell in line {
            let code = sgr(cell);
            if code != last {
                let _ = write!(all, "\x1b[0{code}m");
                last = code;
            }
            all.push_str(cell.symbol());
        }
        all.push_str("\x1b[0m\n");
    }
    all
}

fn lines(buffer: &Buffer) -> impl Iterator<Item = impl Iterator<Item = &Cell>> {
    let width = usize::from(buffer.area.width).max(1);
    buffer.content.chunks(width).map(|line| line.iter())
}

fn sgr(cell: &Cell) -> String {
    let mut code = String::new();
    let modifiers = [
        (Modifier::BOLD, 1),
        (Modifier::DIM, 2),
        (Modifier::UNDERLINED, 4),
        (Modifier::REVERSED, 7),
    ];
    for (modifier, number) in modifiers {
        if cell.modifier.contains(modifier) {
            let _ = write!(code, ";{number}");
        }
    }
    for (color, number) in [(cell.fg, 38), (cell.bg, 48)] {
        if let Color::Indexed(index) = color {
            let _ = write!(code, ";{number};5;{index}");
        }
    }
    code
}

const CELL: (f64, f64) = (8.4, 17.0);
const GROUND: &str = "#1c1c1c";
const INK: &str = "#d0d0d0";

/// The screen as SVG, with one element for each run of cells of the same style.
pub fn svg(buffer: &Buffer) -> String {
    let (width, height) = (
        f64::from(buffer.area.width) * CELL.0 + 16.0,
        f64::from(buffer.area.height) * CELL.1 + 16.0,
    );
    let mut all = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"DejaVu Sans Mono, Menlo, monospace\" font-size=\"14\">\n<rect width=\"100%\" height=\"100%\" fill=\"{GROUND}\"/>\n"
    );
    for (line, y) in lines(buffer).zip(0..) {
        let cells: Vec<&Cell> = line.collect();
        let mut x = 0;
        for alike in cells.chunk_by(|a, b| (a.fg, a.bg, a.modifier) == (b.fg, b.bg, b.modifier)) {
            piece(&mut all, alike, x, y);
            x += alike.len();
        }
    }
    all.push_str("</svg>\n");
    all
}

fn piece(all: &mut String, alike: &[&Cell], x: usize, y: usize) {
    let Some(first) = alike.first() else { return };
    let (mut ink, mut ground) = (rgb(first.fg), rgb(first.bg));
    if first.modifier.contains(Modifier::REVERSED) {
        (ink, ground) = (
            Some(ground.unwrap_or_else(|| GROUND.into())),
            Some(ink.unwrap_or_else(|| INK.into())),
        );
    }
    let (left, top) = (x as f64 * CELL.0 + 8.0, y as f64 * CELL.1 + 8.0);
    let width = alike.len() as f64 * CELL.0;
    if let Some(ground) = ground {
        let _ = writeln!(
            all,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{}\" fill=\"{ground}\"/>",
            CELL.1
        );
    }
    let text: String = alike.iter().map(|cell| cell.symbol()).collect();
    if text.trim().is_empty() {
        return;
    }
    let escaped = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let weight = if first.modifier.contains(Modifier::BOLD) {
        " font-weight=\"bold\""
    } else {
        ""
    };
    let faint = if first.modifier.contains(Modifier::DIM) {
        " opacity=\"0.6\""
    } else {
        ""
    };
    let _ = writeln!(
        all,
        "<text x=\"{left:.1}\" y=\"{:.1}\" fill=\"{}\" xml:space=\"preserve\" textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\"{weight}{faint}>{escaped}</text>",
        top + 13.0,
        ink.unwrap_or_else(|| INK.into()),
    );
}

/// The RGB value of an indexed colour.
fn rgb(color: Color) -> Option<String> {
    let Color::Indexed(index) = color else {
        return None;
    };
    let step = |part: u8| if part == 0 { 0 } else { 55 + 40 * part };
    Some(match index {
        16..=231 => {
            let cube = index - 16;
            format!(
                "#{:02x}{:02x}{:02x}",
                step(cube / 36),
                step(cube / 6 % 6),
                step(cube % 6)
            )
        }
        232.. => format!("#{0:02x}{0:02x}{0:02x}", 8 + 10 * (index - 232)),
        _ => INK.to_owned(),
    })
}

/// Writes the screen in all three formats, and returns the path without its suffix.
///
/// # Errors
/// A file exists or cannot be written. Existing files are never overwritten.
pub(crate) fn save(buffer: &Buffer, folder: &Path) -> io::Result<PathBuf> {
    let base = folder.join(format!("tcpxctl-watch-{}", tcpx_words::units::stamp_utc()));
    for (suffix, content) in [
        ("txt", text(buffer)),
        ("ans", ansi(buffer)),
        ("svg", svg(buffer)),
    ] {
        write_new(&base.with_extension(suffix), content.as_bytes())?;
    }
    Ok(base)
}

/// A file that cannot be written completely is removed.
fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)?;
    let written = io::Write::write_all(&mut file, content);
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    written
}
