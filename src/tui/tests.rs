//! Screens of a recorded run, drawn without a terminal.

use super::keys::{HELP, Message, message};
use super::shot;
use super::state::{Pane, Sort, ViewState};
use super::theme::Theme;
use super::update::{Effect, update};
use super::view::view;
use crate::watch::{Folder, Model, Source};
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::style::Color;
use std::path::Path;
use tcpx_run_model::record::ChannelNow;
use tcpx_run_model::record::live::{
    ChannelKey, Detail, EventDetail, Line, LineKind, NodeNow, RequestDetail, Title, Update,
};

const PLAIN: Theme = Theme { color: false, ascii: false };
const COLOR: Theme = Theme { color: true, ascii: false };
const ASCII: Theme = Theme { color: false, ascii: true };
const SECOND: u64 = 1_000_000_000;

/// A recorded run in which the receiver stopped to hand back, and its last moment.
fn stalled() -> (Model, u64) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tui/fixtures/stalled");
    let mut source = Folder::open(&path, None).expect("a run folder");
    let (mut model, mut updates) = (Model::default(), Vec::new());
    source.poll(&mut updates).expect("read");
    updates.into_iter().for_each(|update| model.take(update));
    let last = model.ended.as_ref().map_or(0, |ended| ended.at_ns);
    (model, last)
}

struct Screen {
    model: Model,
    state: ViewState,
    now_ns: u64,
    size: (u16, u16),
}

impl Screen {
    fn new((model, now_ns): (Model, u64), theme: Theme, size: (u16, u16)) -> Self {
        Self { model, state: ViewState::new(theme), now_ns, size }
    }

    fn press(&mut self, messages: &[Message]) -> Option<Effect> {
        let mut buffer = self.buffer();
        let page = view(&self.model, &mut self.state, self.now_ns, &mut buffer);
        let press = |message: &Message| update(&mut self.state, &self.model, *message, self.now_ns, page);
        messages.iter().map(press).last().flatten()
    }

    fn buffer(&self) -> Buffer {
        Buffer::empty(Rect::new(0, 0, self.size.0, self.size.1))
    }

    fn drawn(&mut self) -> Buffer {
        let mut buffer = self.buffer();
        view(&self.model, &mut self.state, self.now_ns, &mut buffer);
        buffer
    }

    fn text(&mut self) -> String {
        shot::text(&self.drawn())
    }
}

#[test]
fn a_stall_at_80_by_24() {
    insta::assert_snapshot!(Screen::new(stalled(), PLAIN, (80, 24)).text());
}

#[test]
fn a_stall_in_ascii() {
    let text = Screen::new(stalled(), ASCII, (100, 30)).text();
    assert!(text.is_ascii(), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn a_stall_on_a_wide_screen_has_every_column_and_the_findings() {
    insta::assert_snapshot!(Screen::new(stalled(), PLAIN, (180, 40)).text());
}

#[test]
fn the_moment_of_the_stall() {
    let mut screen = Screen::new(stalled(), PLAIN, (130, 30));
    screen.press(&[Message::ToStall]);
    insta::assert_snapshot!(screen.text());
    let stalled_at = screen.state.at;
    screen.press(&[Message::Back(1)]);
    assert!(screen.state.at < stalled_at);
    let text = screen.text();
    assert!(text.contains("MOVING") && text.contains("PAUSED"), "{text}");
    screen.press(&[Message::Oldest, Message::Back(5)]);
    assert_eq!(screen.state.at, screen.model.span().map(|(first, _)| first));
    screen.press(&[Message::Pause]);
    assert_eq!(screen.state.at, None);
}

#[test]
fn the_findings() {
    let mut screen = Screen::new(stalled(), PLAIN, (80, 24));
    screen.press(&[Message::Show(Pane::Findings), Message::Zoom]);
    insta::assert_snapshot!(screen.text());
}

#[test]
fn the_log_alone_and_scrolled() {
    let mut screen = Screen::new(stalled(), PLAIN, (90, 20));
    screen.press(&[Message::Zoom, Message::Up(3)]);
    insta::assert_snapshot!(screen.text());
}

#[test]
fn the_help_names_every_key_and_any_key_closes_it() {
    let mut screen = Screen::new(stalled(), PLAIN, (80, 24));
    screen.press(&[Message::Help]);
    insta::assert_snapshot!(screen.text());
    assert!(HELP.iter().all(|(keys, words)| !keys.is_empty() && keys.len() <= 24 && words.len() < 50));
    screen.press(&[Message::Down(1)]);
    assert!(!screen.state.help);
}

fn detail(node: &str) -> Detail {
    let event = |ago_us, what: &str, call: &str, rc, value| EventDetail {
        ago_us,
        what: what.into(),
        call: call.into(),
        rc,
        request: 0x00c0_ffee,
        value,
    };
    let socket = tcpx_node::TcpSocket {
        local: "10.0.0.226:40000".parse().expect("an address"),
        peer: "10.0.1.25:50000".parse().expect("an address"),
        state: "ESTAB".into(),
        recv_queue: 1_048_576,
        send_queue: 0,
        retransmits: Some(3),
        rtt_us: Some(142),
        inode: 0,
        flow: None,
    };
    let request = |number| RequestDetail { number, stage: 'd', bytes: 65536, age_us: 4_800_000 };
    Detail {
        channel: ChannelKey { node: node.into(), side: "recv".into(), index: 1 },
        at_ns: 0,
        requests: (2995..3011).map(request).collect(),
        events: vec![
            event(5_000_000, "posted", "irecv", 0, 65536),
            event(4_900_000, "done", "test", 0, 65536),
            event(4_800_000, "failed", "test", 2, 0),
        ],
        latency: vec![(1 << 20, 1 << 21, 40), (1 << 21, 1 << 22, 2900), (1 << 22, 1 << 23, 71)],
        sockets: Ok(vec![socket]),
        nic: vec![("rx_bytes".into(), 12_345_678_901), ("rx_dropped".into(), 0)],
    }
}

fn closely(size: (u16, u16)) -> Screen {
    let mut screen = Screen::new(stalled(), PLAIN, size);
    screen.press(&[Message::Filter, Message::Type('r'), Message::Type('e'), Message::Type('c'), Message::Type('v')]);
    screen.press(&[Message::Accept, Message::NextTrouble, Message::Open]);
    screen
}

#[test]
fn a_channel_closely_without_its_recorder() {
    insta::assert_snapshot!(closely((80, 24)).text());
}

#[test]
fn a_channel_closely_with_its_calls_and_sockets() {
    let mut screen = closely((80, 40));
    screen.model.take(Update::Detail(Box::new(detail("peer"))));
    insta::assert_snapshot!("a_channel_closely_80", screen.text());
    screen.size = (150, 40);
    insta::assert_snapshot!("a_channel_closely_150", screen.text());
}

/// Channels in any number, of two nodes over two NICs.
fn many(channels: usize) -> (Model, u64) {
    let mut model = Model::default();
    model.take(Update::Title(Title { name: "many".into(), started_ns: SECOND, ..Title::default() }));
    for (node, side) in [("local", "send"), ("peer", "recv")] {
        let nics = [(0, "eth1".to_owned()), (1, "eth2".to_owned())].into();
        let facts = NodeNow { host: "node0".into(), plugin: "Plugin v7 3.1.9".into(), nics, ..NodeNow::default() };
        model.take(Update::Node { node: node.into(), facts });
        for second in 1..4u64 {
            let channel = |index: usize| ChannelNow {
                side: side.into(),
                index,
                device: (index % 2) as i64,
                posted: 100 * second + 5,
                done: 100 * second + 2,
                consumed: 100 * second,
                bytes: second * 500_000_000 * (index as u64 + 1),
                tests: 1000 * second,
                tests_not_done: 900 * second,
                rc_errors: u64::from(index == 3),
                quiet_ms: if index == 5 { 700 } else { 3 },
                head_age_ms: Some(4),
                requests: "ddppp".into(),
                ..ChannelNow::default()
            };
            let channels = (0..channels).map(channel).collect();
            model.take(Update::Sample { node: node.into(), at_ns: second * SECOND, channels });
        }
    }
    let line = Line { node: "peer".into(), at_ns: 2 * SECOND, kind: LineKind::Warning, text: "socket closed".into() };
    model.take(Update::Line(line));
    (model, 3 * SECOND)
}

#[test]
fn rates_are_over_the_last_second_and_errors_show() {
    insta::assert_snapshot!(Screen::new(many(6), PLAIN, (140, 26)).text());
}

#[test]
fn groups_collapse_channels_sort_and_the_cursor_stays_on_its_channel() {
    let mut screen = Screen::new(many(6), PLAIN, (100, 24));
    screen.press(&[Message::Down(2)]);
    let before = screen.state.selected.clone();
    screen.press(&[Message::Groups, Message::SortNext, Message::SortNext, Message::Reverse]);
    assert_eq!((screen.state.sort, &screen.state.selected), (Sort::InFlight, &before));
    screen.state.sort = Sort::Rate;
    insta::assert_snapshot!("one_list_by_rate", screen.text());
    screen.press(&[Message::Groups, Message::CollapseAll]);
    insta::assert_snapshot!("collapsed", screen.text());
}

#[test]
fn a_filter_leaves_what_has_all_its_words() {
    let mut screen = Screen::new(many(6), PLAIN, (100, 24));
    screen.state.filter = "peer eth2 waiting".into();
    let text = screen.text();
    assert!(text.contains("recv   5") && !text.contains("recv   1") && !text.contains("send   5"), "{text}");
    screen.state.filter = "nothing like it".into();
    assert!(screen.text().contains("no channel matches the filter"));
}

#[test]
fn every_size_is_drawn_and_the_cursor_is_on_the_screen() {
    let mut screen = Screen::new(many(512), COLOR, (80, 24));
    for (width, height) in [(1, 1), (5, 2), (20, 5), (79, 10), (80, 24), (300, 80), (1000, 3)] {
        screen.size = (width, height);
        for pane in [Pane::Log, Pane::Detail, Pane::Findings, Pane::None] {
            screen.state.pane = pane;
            screen.press(&[Message::Last]);
            screen.drawn();
            screen.press(&[Message::First, Message::PageDown, Message::Help]);
            screen.drawn();
            screen.state.help = false;
        }
    }
    screen.size = (80, 24);
    screen.press(&[Message::Last]);
    assert!(screen.text().contains("recv 511"));
}

#[test]
fn nothing_yet_is_said() {
    insta::assert_snapshot!(Screen::new((Model::default(), 0), PLAIN, (80, 10)).text());
}

#[test]
fn a_node_that_is_silent_is_no_stall() {
    let (model, now_ns) = many(2);
    let text = Screen::new((model, now_ns + 5 * SECOND), PLAIN, (100, 20)).text();
    assert!(text.contains("NO NEWS") && text.contains("no counters from") && text.contains("5.0 s"), "{text}");
}

#[test]
fn colours_mean_what_the_glyphs_mean_and_none_is_none() {
    let drawn = Screen::new(stalled(), COLOR, (130, 30)).drawn();
    let ink = |glyph: &str, color: u8| {
        let cells = drawn.content.iter().filter(|cell| cell.symbol() == glyph);
        cells.filter(|cell| cell.fg == Color::Indexed(color)).count()
    };
    assert_eq!((ink("▒", 74), ink("▒", 214), ink("█", 214)), (12, 0, 16));
    assert_eq!(drawn[(1, 1)].bg, Color::Indexed(202));
    let plain = Screen::new(stalled(), PLAIN, (130, 30)).drawn();
    assert!(plain.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
}

#[test]
fn a_screen_is_kept_as_text_with_colours_and_as_a_picture() {
    let drawn = Screen::new(stalled(), COLOR, (80, 24)).drawn();
    let ansi = shot::ansi(&drawn);
    assert!(ansi.contains("\x1b[0;1;38;5;16;48;5;202m"), "{ansi:.300}");
    let mut stripped = String::new();
    for part in ansi.split("\x1b[") {
        stripped.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    assert_eq!(trimmed(&stripped), trimmed(&shot::text(&drawn)));
    let svg = shot::svg(&drawn);
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains("#ff5f00"));
    let folder = tempfile::tempdir().expect("a folder");
    let base = shot::save(&drawn, folder.path()).expect("saved");
    assert!(["txt", "ans", "svg"].iter().all(|suffix| base.with_extension(suffix).is_file()));
}

#[test]
fn keys_ask_for_what_the_help_says() {
    let key = |code, modifiers| message(KeyEvent::new(code, modifiers), false);
    assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Message::Interrupt));
    assert_eq!(key(KeyCode::Char('z'), KeyModifiers::CONTROL), Some(Message::Suspend));
    assert_eq!(key(KeyCode::Left, KeyModifiers::SHIFT), Some(Message::Back(10)));
    assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Some(Message::Quit));
    let typed = message(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE), true);
    assert_eq!(typed, Some(Message::Type('q')));
    let mut screen = Screen::new(many(1), PLAIN, (80, 24));
    assert_eq!(screen.press(&[Message::Interrupt]), Some(Effect::Interrupt));
    assert_eq!(screen.press(&[Message::Help, Message::Quit]), None);
    assert_eq!(screen.press(&[Message::Quit]), Some(Effect::Leave));
}

#[test]
fn counters_that_cannot_be_are_drawn() {
    let mut model = Model::default();
    let all = u64::MAX;
    let hostile = ChannelNow {
        side: "\x1b[31m".repeat(40),
        index: usize::MAX,
        device: i64::MIN,
        posted: all,
        done: all,
        bytes: all,
        in_flight_high_water: all,
        tests: all,
        rc_errors: all,
        quiet_ms: all,
        head_age_ms: Some(all),
        requests: "d".repeat(100_000),
        in_call: Some("\u{202e}test".into()),
        ..ChannelNow::default()
    };
    for at_ns in [0, 1, all] {
        let channels = vec![hostile.clone(), ChannelNow::default()];
        model.take(Update::Sample { node: "peer".into(), at_ns, channels });
    }
    let mut screen = Screen::new((model, all), COLOR, (200, 30));
    for pane in [Pane::Log, Pane::Detail] {
        screen.state.pane = pane;
        assert!(!screen.text().contains('\x1b'));
    }
    screen.press(&[Message::ToStall, Message::Back(3), Message::Forward(9), Message::NextTrouble]);
    screen.drawn();
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]
    #[test]
    fn an_event_stream_of_anything_is_drawn(
        changes in proptest::collection::vec((proptest::prelude::any::<u32>(), proptest::prelude::any::<u8>()), 1..60),
    ) {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tui/fixtures/stalled/events.jsonl");
        let mut bytes = std::fs::read(fixture).expect("read");
        for (place, byte) in changes {
            let place = place as usize % bytes.len();
            bytes[place] = byte;
        }
        let run = tempfile::tempdir().expect("a folder");
        std::fs::write(run.path().join("events.jsonl"), bytes).expect("written");
        let mut source = Folder::open(run.path(), None).expect("opened");
        let (mut model, mut updates) = (Model::default(), Vec::new());
        source.poll(&mut updates).expect("read");
        updates.into_iter().for_each(|update| model.take(update));
        let last = model.span().map_or(0, |(_, last)| last);
        let mut screen = Screen::new((model, last), COLOR, (120, 30));
        screen.press(&[Message::ToStall, Message::Open]);
        screen.drawn();
    }
}

#[test]
fn a_replay_tells_what_happened_in_its_own_time() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tui/fixtures/stalled");
    let mut slow = Folder::open(&path, Some(0.01)).expect("a run folder");
    let mut updates = Vec::new();
    slow.poll(&mut updates).expect("read");
    let samples = |updates: &[Update]| updates.iter().filter(|one| matches!(one, Update::Sample { .. })).count();
    assert!(samples(&updates) < 5 && slow.now_ns().is_some());
    // Ten seconds of a run in ten milliseconds.
    let mut quick = Folder::open(&path, Some(1000.0)).expect("a run folder");
    let mut all = Vec::new();
    for _ in 0..1000 {
        quick.poll(&mut all).expect("read");
        if quick.now_ns().is_none() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(samples(&all) > 20 && matches!(all.last(), Some(Update::Ended { .. })));
}
