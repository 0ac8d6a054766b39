//! Screens of a recorded run, drawn without a terminal.

use super::keys::{Message, help, message};
use super::shot;
use super::state::{SortOrder, ViewState};
use super::theme::Theme;
use super::update::{Effect, update};
use super::view::{Drawn, PANES, Pane, view};
use crate::watch::{Beginning, Clock, FolderSource, Model, Source};
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::style::Color;
use rustix::fs::{FlockOperation, flock};
use std::path::Path;
use tcpx_run_model::counters::ChannelNow;
use tcpx_run_model::counters::{ChannelDetail, ChannelKey, EventDetail, RequestDetail};
use tcpx_run_model::event::{Event, EventKind, PluginDevice, PluginReady};
use tcpx_run_model::ids::{Lane, NodeId, NodeIntro, PairId, PairIntro, Who, WorkerId, shown_names};
use tcpx_run_model::phase::{Failure, Phase};
use tcpx_run_model::results::PluginRecord;
use tcpx_words::error::Outcome;
use tcpx_words::log::LogLine;
use tcpx_words::side::Side;

const PLAIN: Theme = Theme {
    color: false,
    ascii: false,
};
const COLOR: Theme = Theme {
    color: true,
    ascii: false,
};
const ASCII: Theme = Theme {
    color: false,
    ascii: true,
};
const LOCAL: WorkerId = WorkerId::of_pair(NodeId(0), PairId(0));
const PEER: WorkerId = WorkerId::of_pair(NodeId(1), PairId(0));

/// The pane of a key.
fn pane(key: char) -> &'static Pane {
    PANES.iter().find(|pane| pane.key == key).expect("a pane")
}

/// A recorded run in which the receiver stopped consuming.
fn stalled() -> Model {
    let mut source = FolderSource::open(&fixture(), None).expect("a run folder");
    let mut model = Model::new(source.begin());
    model.poll(&mut source).expect("read");
    model
}

/// A run folder of version 1.
fn fixture() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/stalled")
}

struct Screen {
    model: Model,
    state: ViewState,
    now_ns: u64,
    size: (u16, u16),
}

impl Screen {
    /// A screen at the time of the newest event.
    fn new(model: Model, theme: Theme, size: (u16, u16)) -> Self {
        let now_ns = model.last_ns();
        Self {
            model,
            state: ViewState::new(theme),
            now_ns,
            size,
        }
    }

    fn press(&mut self, messages: &[Message]) -> Option<Effect> {
        let mut buffer = self.buffer();
        let page = self.draw(&mut buffer).page;
        let press =
            |message: &Message| update(&mut self.state, &self.model, *message, self.now_ns, page);
        messages.iter().map(press).last().flatten()
    }

    fn buffer(&self) -> Buffer {
        Buffer::empty(Rect::new(0, 0, self.size.0, self.size.1))
    }

    fn draw(&mut self, buffer: &mut Buffer) -> Drawn {
        view(&self.model, &mut self.state, self.now_ns, buffer)
    }

    fn drawn(&mut self) -> Buffer {
        let mut buffer = self.buffer();
        self.draw(&mut buffer);
        buffer
    }

    fn text(&mut self) -> String {
        shot::text(&self.drawn())
    }
}

/// The recorded run, with lines that are no events before its own.
fn after_lines(lines: &[u8]) -> tempfile::TempDir {
    let run = tempfile::tempdir().expect("a folder");
    for file in ["run.json", "events.jsonl"] {
        let own = std::fs::read(fixture().join(file)).expect(file);
        let before = if file == "run.json" { b"" } else { lines };
        std::fs::write(run.path().join(file), [before, &own].concat()).expect(file);
    }
    run
}

#[test]
fn a_long_stream_is_drawn_while_it_is_read_and_a_single_frame_is_of_its_end() {
    let line = format!("{:71}\n", "no event");
    let run = after_lines(&line.as_bytes().repeat(768 << 10));
    let mut source = FolderSource::open(run.path(), None).expect("a run folder");
    let mut model = Model::new(source.begin());
    let mut shown = Vec::new();
    loop {
        model.poll(&mut source).expect("read");
        let mut screen = Screen::new(model, PLAIN, (80, 24));
        shown.push(screen.text());
        model = screen.model;
        if !matches!(model.clock, Clock::Reading(_)) {
            break;
        }
    }
    assert_eq!((shown.len(), model.clock), (4, Clock::Over));
    let banner = "READING  29 % of what the run has written is read";
    assert!(shown[0].contains(banner), "{}", shown[0]);
    let mut source = FolderSource::open(run.path(), None).expect("a run folder");
    let look = crate::ViewOptions {
        theme: PLAIN,
        frame: std::time::Duration::from_millis(50),
        stay: false,
    };
    let frame = crate::once(&mut source, look, 80, 24).expect("a frame");
    assert_eq!(Some(&shot::text(&frame)), shown.last());
}

#[test]
fn a_stream_of_lines_that_are_no_events_is_not_read_to_its_end() {
    let run = after_lines(&b"{}\n".repeat(1_000_000));
    let mut source = FolderSource::open(run.path(), None).expect("a run folder");
    let events = source.poll().expect("read");
    let [
        Event {
            kind: EventKind::Note(note),
            ..
        },
        ..,
    ] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert!(note.ends_with("the rest was not read"), "{note}");
    assert!(samples(&events) == 0 && source.clock() == Clock::Over);
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
    assert_eq!(
        screen.state.at,
        screen.model.timeline.span().map(|(first, _)| first)
    );
    screen.press(&[Message::Pause]);
    assert_eq!(screen.state.at, None);
}

#[test]
fn the_findings() {
    let mut screen = Screen::new(stalled(), PLAIN, (80, 24));
    screen.press(&[Message::Show(pane('f')), Message::Zoom]);
    insta::assert_snapshot!(screen.text());
}

#[test]
fn the_log_alone_and_scrolled() {
    let mut screen = Screen::new(stalled(), PLAIN, (90, 20));
    screen.press(&[Message::Zoom, Message::Up(3)]);
    insta::assert_snapshot!(screen.text());
}

#[test]
fn a_warning_that_is_repeated_is_one_line_of_the_log() {
    let warn = |ms: u64| {
        let line = LogLine {
            level: 2,
            function: "alloc".into(),
            line: 7,
            text: format!("No free space in pool {}", ms * 37),
            count: ms,
        };
        Event::new(
            ms as f64,
            Who::Worker(WorkerId::of_pair(NodeId(1), PairId(0))),
            EventKind::PluginLine(line),
        )
    };
    let mut events = vec![nodes(&["node0", "node0"])];
    events.extend((1..=3203).map(warn));
    let model = Model::after(Beginning::default(), events);
    let text = Screen::new(model, PLAIN, (100, 24)).text();
    assert!(text.contains("3203 lines, 1 WARN "), "{text}");
    assert_eq!(text.matches("No free space in pool").count(), 1, "{text}");
    assert!(
        text.contains("3203 times, the last: alloc:7 No free space in pool 118511"),
        "{text}"
    );
}

#[test]
fn the_help_names_every_key_and_any_key_closes_it() {
    let mut screen = Screen::new(stalled(), PLAIN, (80, 24));
    screen.press(&[Message::Help]);
    insta::assert_snapshot!(screen.text());
    assert!(
        help()
            .iter()
            .all(|(keys, words)| !keys.is_empty() && keys.len() <= 24 && words.len() < 50)
    );
    screen.press(&[Message::Down(1)]);
    assert!(!screen.state.help);
}

fn detail(worker: WorkerId) -> ChannelDetail {
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
    let request = |number| RequestDetail {
        number,
        stage: 'd',
        bytes: 65536,
        age_us: 4_800_000,
    };
    ChannelDetail {
        channel: ChannelKey {
            worker,
            side: Side::Recv,
            index: 1,
        },
        at_ns: 0,
        requests: (2995..3011).map(request).collect(),
        events: vec![
            event(5_000_000, "posted", "irecv", 0, 65536),
            event(4_900_000, "done", "test", 0, 65536),
            event(4_800_000, "failed", "test", 2, 0),
        ],
        latency: vec![
            (1 << 20, 1 << 21, 40),
            (1 << 21, 1 << 22, 2900),
            (1 << 22, 1 << 23, 71),
        ],
        sockets: Ok(vec![socket]),
        nic: vec![
            ("rx_bytes".into(), 12_345_678_901),
            ("rx_dropped".into(), 0),
        ],
    }
}

fn detail_screen(size: (u16, u16)) -> Screen {
    let mut screen = Screen::new(stalled(), PLAIN, size);
    screen.press(&[
        Message::Filter,
        Message::Type('r'),
        Message::Type('e'),
        Message::Type('c'),
        Message::Type('v'),
    ]);
    screen.press(&[Message::Accept, Message::NextTrouble, Message::Open]);
    screen
}

#[test]
fn channel_details_without_a_recorder() {
    insta::assert_snapshot!(detail_screen((80, 24)).text());
}

#[test]
fn channel_details_show_calls_and_sockets() {
    let mut screen = detail_screen((80, 40));
    assert_eq!(
        screen.draw(&mut screen.buffer()).focus,
        Some(detail(PEER).channel)
    );
    screen.model.detail = Some(detail(PEER));
    insta::assert_snapshot!("channel_details_80", screen.text());
    screen.size = (150, 40);
    insta::assert_snapshot!("channel_details_150", screen.text());
}

/// An event of one worker, `second` seconds after the start.
fn event_at(second: u64, worker: WorkerId, kind: EventKind) -> Event {
    let at = "1970-01-01T00:00:01Z".to_owned();
    Event {
        at,
        ..Event::new(second as f64 * 1e3, Who::Worker(worker), kind)
    }
}

fn nodes(addresses: &[&str]) -> Event {
    let node = |(name, address): (String, &&str)| NodeIntro {
        name,
        address: (*address).to_owned(),
    };
    let nodes = shown_names(addresses)
        .into_iter()
        .zip(addresses)
        .map(node)
        .collect();
    Event {
        at: "1970-01-01T00:00:01Z".into(),
        ..Event::new(0.0, Who::Run, EventKind::Nodes(nodes))
    }
}

fn plugin() -> EventKind {
    let device = |(index, name): (usize, &str)| PluginDevice {
        index,
        name: name.to_owned(),
    };
    let plugin = PluginRecord {
        path: "builtin".into(),
        sha256: "builtin".into(),
        abi: 7,
        name: "Plugin".into(),
        family: tcpx_words::plugin_family::PluginFamily::Other,
        version: Some("3.1.9".into()),
        why: String::new(),
        passed_over: Vec::new(),
    };
    let devices = ["eth1", "eth2"]
        .into_iter()
        .enumerate()
        .map(device)
        .collect();
    EventKind::Plugin(Box::new(PluginReady {
        plugin,
        devices,
        load_ms: 0.0,
        init_ms: 0.0,
    }))
}

/// The counters of a channel that has moved for `second` seconds.
fn counters(side: Side, index: usize, second: u64) -> ChannelNow {
    ChannelNow {
        side,
        index,
        device: (index % 2) as i64,
        posted: 100 * second + 5,
        done: 100 * second + 2,
        consumed: 100 * second,
        bytes: second * 500_000_000 * (index as u64 + 1),
        tests: 1000 * second,
        tests_not_done: 900 * second,
        quiet_ms: 3,
        head_age_ms: Some(4),
        requests: "ddppp".into(),
        ..ChannelNow::default()
    }
}

fn many_at(channels: usize, second: u64) -> impl Iterator<Item = Event> {
    [(LOCAL, Side::Send), (PEER, Side::Recv)]
        .into_iter()
        .map(move |(worker, side)| {
            let channel = |index: usize| ChannelNow {
                rc_errors: u64::from(index == 3),
                quiet_ms: if index == 5 { 700 } else { 3 },
                ..counters(side, index, second + 1)
            };
            event_at(
                second,
                worker,
                EventKind::Sample((0..channels).map(channel).collect()),
            )
        })
}

/// A run of two nodes with `channels` channels on each, over two NICs.
fn many(channels: usize) -> Model {
    let line = LogLine {
        level: 2,
        function: "f".into(),
        line: 1,
        text: "socket closed".into(),
        count: 1,
    };
    let mut events = vec![
        nodes(&["node0", "node0"]),
        event_at(0, LOCAL, plugin()),
        event_at(0, PEER, plugin()),
    ];
    events.extend((0..3).flat_map(|second| many_at(channels, second)));
    events.push(event_at(1, PEER, EventKind::PluginLine(line)));
    Model::after(
        Beginning {
            title: "many".into(),
            ..Beginning::default()
        },
        events,
    )
}

#[test]
fn rates_are_over_the_last_second_and_errors_show() {
    insta::assert_snapshot!(Screen::new(many(6), PLAIN, (140, 26)).text());
}

#[test]
fn the_cursor_stays_on_its_channel_when_groups_collapse_and_channels_are_sorted() {
    let mut screen = Screen::new(many(6), PLAIN, (100, 24));
    screen.press(&[Message::Down(2)]);
    let before = screen.state.selected.clone();
    screen.press(&[
        Message::Groups,
        Message::SortNext,
        Message::SortNext,
        Message::Reverse,
    ]);
    assert_eq!(
        (screen.state.sort, &screen.state.selected),
        (SortOrder::InFlight, &before)
    );
    screen.state.sort = SortOrder::Rate;
    insta::assert_snapshot!("one_list_by_rate", screen.text());
    screen.press(&[Message::Groups, Message::CollapseAll]);
    insta::assert_snapshot!("collapsed", screen.text());
}

#[test]
fn a_filter_keeps_channels_that_contain_all_its_words() {
    let mut screen = Screen::new(many(6), PLAIN, (100, 24));
    screen.state.filter = "peer eth2 waiting".into();
    let text = screen.text();
    assert!(
        text.contains("recv   5") && !text.contains("recv   1") && !text.contains("send   5"),
        "{text}"
    );
    screen.state.filter = "nothing like it".into();
    assert!(screen.text().contains("no channel matches the filter"));
}

#[test]
fn at_80_columns_every_channel_shows_its_node() {
    let mut screen = Screen::new(many(24), PLAIN, (80, 24));
    screen.press(&[Message::Last]);
    insta::assert_snapshot!("scrolled_groups_80", screen.text());
    screen.press(&[Message::Groups]);
    insta::assert_snapshot!("one_list_80", screen.text());
}

#[test]
fn every_size_is_drawn_and_the_cursor_is_on_the_screen() {
    let mut screen = Screen::new(many(512), COLOR, (80, 24));
    for (width, height) in [
        (1, 1),
        (5, 2),
        (20, 5),
        (79, 10),
        (80, 24),
        (300, 80),
        (1000, 3),
    ] {
        screen.size = (width, height);
        for pane in PANES.iter().copied().map(Some).chain([None]) {
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
fn an_empty_model_is_drawn() {
    insta::assert_snapshot!(Screen::new(Model::new(Beginning::default()), PLAIN, (80, 10)).text());
}

#[test]
fn stale_counters_are_no_stall() {
    let mut screen = Screen::new(many(2), PLAIN, (100, 20));
    screen.now_ns += 5_000_000_000;
    let text = screen.text();
    assert!(
        text.contains("NO COUNTERS") && text.contains("no counters from") && text.contains("5.0 s"),
        "{text}"
    );
}

#[test]
fn colours_match_the_glyphs_and_the_plain_theme_has_none() {
    let drawn = Screen::new(stalled(), COLOR, (130, 30)).drawn();
    let ink = |glyph: &str, color: u8| {
        let cells = drawn.content.iter().filter(|cell| cell.symbol() == glyph);
        cells
            .filter(|cell| cell.fg == Color::Indexed(color))
            .count()
    };
    assert_eq!((ink("▒", 74), ink("▒", 214), ink("█", 214)), (12, 0, 16));
    assert_eq!(drawn[(1, 1)].bg, Color::Indexed(202));
    let plain = Screen::new(stalled(), PLAIN, (130, 30)).drawn();
    assert!(
        plain
            .content
            .iter()
            .all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset)
    );
}

#[test]
fn a_screen_is_saved_as_text_ansi_and_svg() {
    let drawn = Screen::new(stalled(), COLOR, (80, 24)).drawn();
    let ansi = shot::ansi(&drawn);
    assert!(ansi.contains("\x1b[0;1;38;5;16;48;5;202m"), "{ansi:.300}");
    let mut stripped = String::new();
    for part in ansi.split("\x1b[") {
        stripped.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    let trimmed = |text: &str| {
        text.lines()
            .map(str::trim_end)
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(trimmed(&stripped), trimmed(&shot::text(&drawn)));
    let svg = shot::svg(&drawn);
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains("#ff5f00"));
    let folder = tempfile::tempdir().expect("a folder");
    let base = shot::save(&drawn, folder.path()).expect("saved");
    assert!(
        ["txt", "ans", "svg"]
            .iter()
            .all(|suffix| base.with_extension(suffix).is_file())
    );
}

#[test]
fn keys_give_their_messages() {
    let key = |code, modifiers| message(KeyEvent::new(code, modifiers), false);
    assert_eq!(
        key(KeyCode::Char('c'), KeyModifiers::CONTROL),
        Some(Message::Interrupt)
    );
    assert_eq!(
        key(KeyCode::Char('z'), KeyModifiers::CONTROL),
        Some(Message::Suspend)
    );
    assert_eq!(
        key(KeyCode::Left, KeyModifiers::SHIFT),
        Some(Message::Back(10))
    );
    assert_eq!(
        key(KeyCode::Char('q'), KeyModifiers::NONE),
        Some(Message::Quit)
    );
    let typed = message(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE), true);
    assert_eq!(typed, Some(Message::Type('q')));
    let mut screen = Screen::new(many(1), PLAIN, (80, 24));
    assert_eq!(screen.press(&[Message::Interrupt]), Some(Effect::Interrupt));
    assert_eq!(screen.press(&[Message::Help, Message::Quit]), None);
    assert_eq!(screen.press(&[Message::Quit]), Some(Effect::Leave));
}

#[test]
fn every_pane_has_a_key_of_its_own() {
    for (place, pane) in PANES.iter().enumerate() {
        let key = message(
            KeyEvent::new(KeyCode::Char(pane.key), KeyModifiers::NONE),
            false,
        );
        assert_eq!(key, Some(Message::Show(pane)), "another key in keys.rs");
        assert!(
            PANES[..place]
                .iter()
                .all(|before| before.key != pane.key && before.shows != pane.shows)
        );
    }
    assert_eq!(
        PANES.iter().filter(|pane| pane.is_of_channel).count(),
        1,
        "Enter opens it"
    );
    let mut screen = Screen::new(many(1), PLAIN, (80, 24));
    let mut shown = Vec::new();
    for _ in 0..=PANES.len() {
        shown.push(screen.state.pane.map(|pane| pane.key));
        screen.press(&[Message::NextPane]);
    }
    assert!(
        shown
            .iter()
            .flatten()
            .eq(PANES.iter().map(|pane| &pane.key))
            && shown.last() == Some(&None)
    );
    assert_eq!(screen.state.pane, Some(PANES[0]));
}

/// A channel with these requests posted and done, none consumed, unchanged for four seconds.
fn stuck(channel: ChannelNow, [posted, done]: [u64; 2], stage: char) -> ChannelNow {
    let (requests, bytes) = (stage.to_string().repeat(posted as usize), 0);
    ChannelNow {
        posted,
        done,
        consumed: 0,
        bytes,
        quiet_ms: 4000,
        head_age_ms: Some(4000),
        requests,
        ..channel
    }
}

/// A ring of three nodes whose second pair has stalled.
fn ring() -> Vec<Event> {
    let pair = |a, b| PairIntro::new([NodeId(a), NodeId(b)], vec![Lane::Host]);
    let pairs = vec![pair(0, 1), pair(1, 2), pair(2, 0)];
    let mut events = vec![
        nodes(&["a3-0", "a3-1", "a3-2"]),
        Event::new(0.0, Who::Run, EventKind::Pairs(pairs)),
    ];
    for (pair, [sender, receiver]) in [(0, [0, 1]), (1, [1, 2]), (2, [2, 0])] {
        let [sender, receiver] =
            [sender, receiver].map(|node| WorkerId::of_pair(NodeId(node), PairId(pair)));
        events.extend([
            event_at(0, sender, plugin()),
            event_at(0, receiver, plugin()),
        ]);
        for second in 1..4 {
            let channel = |side| {
                let moving = counters(side, 0, second);
                match (pair, side) {
                    (1, Side::Send) => stuck(moving, [12, 0], 'p'),
                    (1, Side::Recv) => stuck(moving, [16, 16], 'd'),
                    _ => moving,
                }
            };
            events.push(event_at(
                second,
                sender,
                EventKind::Sample(vec![channel(Side::Send)]),
            ));
            events.push(event_at(
                second,
                receiver,
                EventKind::Sample(vec![channel(Side::Recv)]),
            ));
        }
    }
    events
}

#[test]
fn three_nodes_and_three_pairs_each_have_their_lines() {
    let model = Model::after(
        Beginning {
            title: "ring".into(),
            ..Beginning::default()
        },
        ring(),
    );
    let mut screen = Screen::new(model, PLAIN, (110, 30));
    insta::assert_snapshot!("three_nodes", screen.text());
    screen.press(&[Message::Groups]);
    insta::assert_snapshot!("three_nodes_in_one_list", screen.text());
}

/// A run folder with these events and this record.
fn folder(events: &[Event], record: Option<&str>) -> tempfile::TempDir {
    let run = tempfile::tempdir().expect("a folder");
    let lines = events
        .iter()
        .map(|event| serde_json::to_string(event).expect("JSON") + "\n");
    std::fs::write(run.path().join("events.jsonl"), lines.collect::<String>()).expect("written");
    if let Some(record) = record {
        std::fs::write(run.path().join("run.json"), record).expect("written");
    }
    run
}

/// The lock that a coordinator holds until it has written the record.
fn coordinated(run: &Path) -> std::fs::File {
    let events = std::fs::File::open(run.join("events.jsonl")).expect("written");
    flock(&events, FlockOperation::NonBlockingLockExclusive).expect("locked");
    events
}

fn read(run: &Path) -> (Model, FolderSource) {
    let mut source = FolderSource::open(run, None).expect("a run folder");
    let mut model = Model::new(source.begin());
    model.poll(&mut source).expect("read");
    (model, source)
}

#[test]
fn a_run_folder_shows_the_same_screen_as_the_live_run() {
    let run = folder(&ring(), None);
    let _lock = coordinated(run.path());
    let live = Model::after(Beginning::default(), ring());
    let [seen, read] =
        [live, read(run.path()).0].map(|model| Screen::new(model, PLAIN, (110, 30)).text());
    assert_eq!(seen, read);
}

#[test]
fn a_run_is_followed_until_its_record_is_written() {
    let run = folder(&ring(), None);
    let _lock = coordinated(run.path());
    let (mut model, mut source) = read(run.path());
    assert_eq!(
        (model.clock, model.state().ended.is_some()),
        (Clock::Wall, false)
    );
    let record = r#"{"schema": "tcpxctl.run/2", "outcome": "stalled", "reason": "it stood still"}"#;
    std::fs::write(run.path().join("run.json"), record).expect("written");
    model.poll(&mut source).expect("read");
    assert_eq!(
        (model.clock, model.state().ended.is_some()),
        (Clock::Over, true)
    );
    let text = Screen::new(model, PLAIN, (110, 30)).text();
    assert!(
        text.contains("STALLED  a3-2 with a3-1 recv 0: 16/16 done") && text.contains(" over"),
        "{text}"
    );
}

#[test]
fn a_run_whose_record_ends_while_channels_move_is_not_said_to_move() {
    let mut events = ring();
    events.retain(|event| event.pair != Some(PairId(1)));
    let run = folder(&events, None);
    let shown = || Screen::new(read(run.path()).0, PLAIN, (110, 30)).text();
    let text = shown();
    assert!(
        text.contains("NO END") && !text.contains("MOVING"),
        "{text}"
    );
    let _lock = coordinated(run.path());
    let text = shown();
    assert!(text.contains("MOVING"), "{text}");
}

#[test]
fn a_record_that_lacks_a_part_of_the_run_says_so() {
    let record = r#"{"schema": "tcpxctl.run/2", "outcome": "passed", "events_until_ms": 900000.0,
        "unwritten": "events.jsonl: No space left on device"}"#;
    let run = folder(&ring(), Some(record));
    let text = Screen::new(read(run.path()).0, PLAIN, (150, 30)).text();
    for expected in [
        "PASSED  all transfers completed; the record is incomplete: the run could not write events.jsonl",
        "events.jsonl ends after",
    ] {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_clock_that_was_set_back_during_the_run_is_noted() {
    let record = r#"{"schema": "tcpxctl.run/2", "outcome": "passed",
        "started": "2026-11-20T10:15:00Z", "finished": "2020-01-01T00:00:00Z"}"#;
    let run = folder(&ring(), Some(record));
    let text = Screen::new(read(run.path()).0, PLAIN, (150, 30)).text();
    assert!(
        text.contains(
            "run.json has an end before the start: the clock of that machine was set back"
        ),
        "{text}"
    );
    assert!(!text.contains("the record is incomplete"), "{text}");
}

#[test]
fn a_run_that_is_over_has_no_process_that_may_still_come() {
    let run = folder(&[], None);
    let text = Screen::new(read(run.path()).0, PLAIN, (110, 30)).text();
    assert!(text.contains("NO PROCESS  the run is over"), "{text}");
    let _lock = coordinated(run.path());
    let text = Screen::new(read(run.path()).0, PLAIN, (110, 30)).text();
    assert!(text.contains("no process with a recorder yet"), "{text}");
}

#[test]
fn a_damaged_record_is_noted_and_a_future_version_is_an_error() {
    let damaged = folder(&ring(), Some("{\"schema\":"));
    let (model, _source) = read(damaged.path());
    assert_eq!(
        (model.clock, model.state().ended.is_some()),
        (Clock::Over, false)
    );
    assert!(
        Screen::new(model, PLAIN, (110, 30))
            .text()
            .contains("run.json is damaged")
    );
    let future = folder(&ring(), Some(r#"{"schema": "tcpxctl.run/9"}"#));
    let error = FolderSource::open(future.path(), None)
        .err()
        .expect("refused")
        .to_string();
    assert!(error.contains("tcpxctl.run/9"), "{error}");
}

/// What a worker received: 1 GB at this rate.
fn received(gb_per_s: f64) -> EventKind {
    let text = serde_json::json!({
        "iterations": [{"index": 0, "warmup": false, "nanoseconds": (1e9 / gb_per_s) as u64, "bytes": 1}],
        "channels": [{
            "side": "recv", "index": 0, "device": 0, "nic": "eth1", "counters": null,
            "tally": {"bytes": 1_000_000_000, "verified_bytes": 0, "wrong_bytes": 0, "null_requests": 0, "first_mismatch": null},
        }],
        "round_trip_us": null, "registered_bytes": 0, "resident_bytes": null,
    });
    let result = serde_json::from_str(&text.to_string()).expect("a result");
    EventKind::Transfer(Box::new(result))
}

/// Six nodes in five rounds. The last round has not begun, one pair of the fourth runs, one failed,
/// and `a3-2` is at half of the rate.
fn mesh() -> Vec<Event> {
    let hosts: Vec<String> = (0..6).map(|node| format!("a3-{node}")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let rounds = [
        [[0, 1], [2, 3], [4, 5]],
        [[0, 2], [1, 4], [3, 5]],
        [[0, 3], [1, 5], [2, 4]],
        [[0, 4], [1, 3], [2, 5]],
        [[0, 5], [1, 2], [3, 4]],
    ];
    let pair = |round: usize, nodes: [u32; 2]| PairIntro {
        round: Some(round as u32),
        ..PairIntro::new(nodes.map(NodeId), vec![Lane::Host])
    };
    let all = || {
        (0..)
            .zip(rounds)
            .flat_map(|(round, pairs)| pairs.map(|nodes| (round, nodes)))
    };
    let pairs = all().map(|(round, nodes)| pair(round, nodes)).collect();
    let mut events = vec![
        nodes(&hosts),
        Event::new(0.0, Who::Run, EventKind::Pairs(pairs)),
    ];
    for ((_, nodes), id) in all().zip(0..11) {
        for node in nodes {
            let worker = WorkerId::of_pair(NodeId(node), PairId(id));
            let share = if nodes.contains(&2) { 0.5 } else { 1.0 };
            let rate = 10.0 * share * (1.0 + f64::from((node * 3 + id) % 4) / 100.0);
            let ms = u64::from(id) * 100;
            events.push(match (id, node) {
                (10, _) => event_at(ms, worker, plugin()),
                (9, _) => event_at(ms, worker, EventKind::Failed(failure())),
                _ => event_at(ms, worker, received(rate)),
            });
        }
    }
    events
}

fn failure() -> Failure {
    Failure {
        outcome: Outcome::Failed,
        phase: Phase::Connecting,
        message: "connection refused".to_owned(),
        next_step: None,
        follows: false,
    }
}

#[test]
fn a_mesh_is_a_matrix_that_fills_and_enter_opens_a_pair() {
    let mut screen = Screen::new(Model::after(Beginning::default(), mesh()), PLAIN, (100, 30));
    let text = screen.text();
    assert!(
        text.contains("node a3-2 runs at 50 % of the others"),
        "{text}"
    );
    insta::assert_snapshot!(text);
    screen.press(&[Message::Down(4), Message::Back(1)]);
    let text = screen.text();
    assert!(text.contains(" a3-4 to a3-0"), "{text}");
    screen.press(&[Message::Open]);
    let opened = screen.text();
    assert!(
        opened.contains("a3-4 with a3-0") && !opened.contains("a3-1 with"),
        "{opened}"
    );
    screen.press(&[Message::Close]);
    assert_eq!(screen.text(), text);
    // Nothing of these two has begun.
    screen.press(&[Message::First, Message::Forward(5), Message::Open]);
    let waiting = screen.text();
    assert!(waiting.contains("this pair has not started"), "{waiting}");
    screen.press(&[Message::Close]);
    screen.press(&[Message::First, Message::Open]);
    assert!(
        screen.text().contains("these two do not meet"),
        "a node with itself"
    );
}

#[test]
fn a_mesh_of_more_nodes_than_lines_is_drawn_in_blocks_and_in_ascii() {
    let hosts: Vec<String> = (0..200).map(|node| format!("a3-{node}")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let pair = |id: u32| PairIntro {
        round: Some(0),
        ..PairIntro::new([NodeId(2 * id), NodeId(2 * id + 1)], vec![Lane::Host])
    };
    let pairs = (0..100).map(pair).collect();
    let worker = WorkerId::of_pair(NodeId(199), PairId(99));
    let events = vec![
        nodes(&hosts),
        Event::new(0.0, Who::Run, EventKind::Pairs(pairs)),
        event_at(1, worker, EventKind::Failed(failure())),
    ];
    let mut screen = Screen::new(Model::after(Beginning::default(), events), ASCII, (80, 24));
    screen.press(&[Message::Last]);
    let text = screen.text();
    assert!(
        text.is_ascii() && text.contains(" a3-199 to a3-199"),
        "{text}"
    );
    assert_eq!(
        text.matches(" x").count(),
        2,
        "one block, and the legend: {text}"
    );
}

#[test]
fn impossible_counters_and_hostile_names_are_drawn() {
    let all = u64::MAX;
    let hostile = ChannelNow {
        side: Side::Recv,
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
        in_call: Some("\u{202e}te\x1b[31mst".into()),
        ..ChannelNow::default()
    };
    let sample = |ms: f64| {
        let channels = vec![hostile.clone(), ChannelNow::default()];
        Event::new(ms, Who::Worker(PEER), EventKind::Sample(channels))
    };
    let mut events = vec![
        nodes(&["\x1b[31m", "\u{202e}"]),
        event_at(0, PEER, plugin()),
    ];
    events.extend([0.0, 1e-6, f64::MAX].map(sample));
    let mut screen = Screen::new(Model::after(Beginning::default(), events), COLOR, (200, 30));
    for pane in PANES {
        screen.state.pane = Some(pane);
        assert!(!screen.text().contains(['\x1b', '\u{202e}']));
    }
    screen.press(&[
        Message::ToStall,
        Message::Back(3),
        Message::Forward(9),
        Message::NextTrouble,
    ]);
    screen.drawn();
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]
    #[test]
    fn a_damaged_event_stream_is_drawn(
        changes in proptest::collection::vec((proptest::prelude::any::<u32>(), proptest::prelude::any::<u8>()), 1..60),
    ) {
        let mut bytes = std::fs::read(fixture().join("events.jsonl")).expect("read");
        for (place, byte) in changes {
            let place = place as usize % bytes.len();
            bytes[place] = byte;
        }
        let run = tempfile::tempdir().expect("a folder");
        std::fs::write(run.path().join("events.jsonl"), bytes).expect("written");
        let mut source = FolderSource::open(run.path(), None).expect("opened");
        let mut model = Model::new(source.begin());
        model.poll(&mut source).expect("read");
        let mut screen = Screen::new(model, COLOR, (120, 30));
        screen.press(&[Message::ToStall, Message::Open]);
        screen.drawn();
    }
}

fn samples(events: &[Event]) -> usize {
    events
        .iter()
        .filter(|one| matches!(one.kind, EventKind::Sample(_)))
        .count()
}

#[test]
fn a_replay_runs_at_the_requested_speed() {
    let mut slow = FolderSource::open(&fixture(), Some(0.01)).expect("a run folder");
    let events = slow.poll().expect("read");
    assert!(samples(&events) < 5 && slow.clock() == Clock::Events && slow.record().is_none());
    // Ten seconds of the run take ten milliseconds.
    let mut quick = FolderSource::open(&fixture(), Some(1000.0)).expect("a run folder");
    let mut all = Vec::new();
    for _ in 0..1000 {
        all.extend(quick.poll().expect("read"));
        if quick.clock() == Clock::Over {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(samples(&all) > 20 && quick.record().is_some());
}

#[test]
fn a_node_with_a_name_of_any_length_is_drawn() {
    let long = "n".repeat(70_000);
    let sample = event_at(0, PEER, EventKind::Sample(vec![ChannelNow::default()]));
    let model = Model::after(
        Beginning::default(),
        vec![nodes(&[&long, &long, "c"]), sample],
    );
    assert!(Screen::new(model, COLOR, (80, 24)).text().contains("nnn"));
}

/// Counters that change all the time, of which each poll returns long after it read them.
struct SlowPolls(std::time::Instant, u64);

impl Source for SlowPolls {
    fn begin(&self) -> Beginning {
        Beginning::default()
    }

    fn poll(&mut self) -> Result<Vec<Event>, crate::watch::SourceError> {
        self.1 += 16;
        let channel = ChannelNow {
            side: Side::Recv,
            posted: self.1 + 8,
            done: self.1,
            consumed: self.1,
            ..ChannelNow::default()
        };
        let ms = self.0.elapsed().as_secs_f64() * 1000.0;
        let who = Who::Worker(WorkerId::of_pair(NodeId(1), PairId(0)));
        let event = Event::new(ms, who, EventKind::Sample(vec![channel]));
        std::thread::sleep(std::time::Duration::from_millis(600));
        Ok(vec![event])
    }

    fn clock(&self) -> Clock {
        Clock::Wall
    }
}

#[test]
fn the_time_of_a_poll_is_not_that_of_a_channel_which_waits() {
    let look = crate::ViewOptions {
        theme: PLAIN,
        frame: std::time::Duration::ZERO,
        stay: false,
    };
    let mut source = SlowPolls(std::time::Instant::now(), 0);
    let frame = crate::once(&mut source, look, 100, 24).expect("a frame");
    let text = shot::text(&frame);
    assert!(text.contains("MOVING  1 of 1 channels"), "{text}");
}

/// A channel that is not tested. Its first samples arrive together, from another node.
struct BunchedSamples(u32);

impl Source for BunchedSamples {
    fn begin(&self) -> Beginning {
        Beginning::default()
    }

    fn poll(&mut self) -> Result<Vec<Event>, crate::watch::SourceError> {
        let who = Who::Worker(WorkerId::of_pair(NodeId(1), PairId(0)));
        let sample = |ms: u64| {
            let channel = ChannelNow {
                side: Side::Recv,
                posted: 16,
                quiet_ms: 60_000 + ms,
                ..ChannelNow::default()
            };
            Event::new(ms as f64, who, EventKind::Sample(vec![channel]))
        };
        self.0 += 1;
        Ok(match self.0 {
            1 => vec![sample(0)],
            2 => vec![sample(30), sample(60)],
            poll => vec![sample(60 + u64::from(poll) * 250)],
        })
    }

    fn clock(&self) -> Clock {
        Clock::Wall
    }
}

#[test]
fn a_single_frame_tells_whose_turn_it_is_once_rates_are_known() {
    let look = crate::ViewOptions {
        theme: PLAIN,
        frame: std::time::Duration::ZERO,
        stay: false,
    };
    let frame = crate::once(&mut BunchedSamples(0), look, 120, 24).expect("a frame");
    let text = shot::text(&frame);
    assert!(text.contains("not tested: its program's turn"), "{text}");
}
