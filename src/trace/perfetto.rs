//! Writes the timeline in Chrome's JSON trace format, for the Perfetto UI
//! (<https://ui.perfetto.dev>) and `chrome://tracing`.
//!
//! A channel is a process of the format, so that viewers can fold it. Its requests are on as
//! many lanes (threads) as were in flight at once; each is a slice from posted to its last
//! stage, with the stages inside. Counters are above the lanes. Times are microseconds since
//! the first event.
//!
//! Not written with a serializer: a million events are about 150 MB, and building values for
//! them would take most of the time. Texts are escaped by `serde_json`, numbers formatted by
//! `itoa`.
#![forbid(unsafe_code)]

use super::recorded::{ChannelTrace, Trace, WorkerTrace};
use super::requests::{Request, each_request};
use std::io::{self, Write};
use tcpx_recorder::Event;
use tcpx_recorder::format::EventKind;

/// Size of the output buffer in bytes.
const BLOCK: usize = 1 << 20;
/// Lane 0 of a channel holds calls; requests are on the lanes after it.
const CALLS: usize = 0;

/// Writes the whole trace.
///
/// # Errors
/// Writing failed.
pub fn write(trace: &Trace, to: &mut dyn Write) -> io::Result<()> {
    let spans = trace.workers.iter().filter_map(WorkerTrace::span);
    let sampled = trace
        .samples
        .iter()
        .flat_map(|(_, samples)| samples)
        .map(|sample| (sample.at_ns, sample.at_ns));
    let noted = trace.notes.iter().map(|(at_ns, _)| (*at_ns, *at_ns));
    let (first, last) = spans
        .chain(sampled)
        .chain(noted)
        .reduce(|(first, last), (from, to)| (first.min(from), last.max(to)))
        .unwrap_or((0, 0));
    let mut out = Out {
        to,
        buffer: Vec::with_capacity(BLOCK + 4096),
        first,
        last,
        any: false,
    };
    out.text("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"schema\":\"tcpxctl.trace/1\",\"first_unix_ns\":");
    out.number(first);
    out.text(",\"overwritten\":");
    out.number(trace.overwritten());
    out.text("},\"traceEvents\":[");
    let mut process = 0;
    for worker in &trace.workers {
        process += 1;
        out.worker(worker, process)?;
        for channel in &worker.channels {
            process += 1;
            out.channel(worker, channel, process)?;
        }
    }
    for (name, samples) in &trace.samples {
        process += 1;
        out.samples(name, samples, process)?;
    }
    if !trace.notes.is_empty() {
        out.process(process + 1, "coordinator");
        for (at_ns, text) in &trace.notes {
            out.instant(process + 1, *at_ns, text, &[]);
        }
    }
    out.text("\n]}\n");
    out.to.write_all(&out.buffer)
}

struct Out<'a> {
    to: &'a mut dyn Write,
    buffer: Vec<u8>,
    first: u64,
    last: u64,
    any: bool,
}

impl Out<'_> {
    fn worker(&mut self, worker: &WorkerTrace, process: usize) -> io::Result<()> {
        self.process(
            process,
            &format!("{} : plugin {}", worker.name, worker.plugin),
        );
        self.lane(process, CALLS, "calls");
        for event in &worker.setup.events {
            self.call(worker, event, process);
        }
        for line in &worker.log {
            let level = format!("{} {}:{}", line.level, line.function, line.line);
            self.instant(
                process,
                worker.unix_ns(line.at_ns),
                &line.text,
                &[("from", &level)],
            );
        }
        self.flush()
    }

    fn channel(
        &mut self,
        worker: &WorkerTrace,
        channel: &ChannelTrace,
        process: usize,
    ) -> io::Result<()> {
        let connection = channel.sample.connection;
        let connection = connection.map(|number| format!("connection {number}"));
        let parts = [Some(channel.device.clone()), connection];
        let parts = parts.into_iter().flatten().filter(|part| !part.is_empty());
        let device = match parts.collect::<Vec<_>>().as_slice() {
            [] => String::new(),
            parts => format!(" ({})", parts.join(", ")),
        };
        self.process(
            process,
            &format!("{} {}{device}", worker.name, channel.name),
        );
        self.lane(process, CALLS, "calls");
        let events = &channel.events.events;
        if channel.events.overwritten > 0
            && let Some(event) = events.first()
        {
            let text = format!(
                "{} older events were overwritten",
                channel.events.overwritten
            );
            self.instant(process, worker.unix_ns(event.at_ns), &text, &[]);
        }
        let until_consumed = channel.sample.retires_consumed;
        let mut most = 0;
        each_request(events, until_consumed, |request| {
            most = most.max(request.lane + 1);
            self.request(worker, request, until_consumed, process);
        });
        (1..=most).for_each(|lane| self.lane(process, lane, &format!("slot {}", lane - 1)));
        let mut counts = Counts::at_start(channel);
        for event in events {
            match event.kind {
                EventKind::Posted | EventKind::Done | EventKind::Unpacked | EventKind::Consumed => {
                    counts.take(event.kind);
                    self.counts(
                        process,
                        worker.unix_ns(event.at_ns),
                        &counts,
                        until_consumed,
                    );
                }
                EventKind::Opened | EventKind::Closed | EventKind::Flushed => {
                    self.instant(process, worker.unix_ns(event.at_ns), event.kind.name(), &[]);
                }
                EventKind::Called | EventKind::Failed => self.call(worker, event, process),
            }
            if self.buffer.len() >= BLOCK {
                self.flush()?;
            }
        }
        self.flush()
    }

    fn request(
        &mut self,
        worker: &WorkerTrace,
        request: &Request,
        until_consumed: bool,
        process: usize,
    ) {
        let Some(begins) = request.begins() else {
            return;
        };
        let end = if until_consumed {
            request.consumed
        } else {
            request.done
        };
        let lane = request.lane + 1;
        let begins = worker.unix_ns(begins);
        let ends = end.map_or(self.last, |at| worker.unix_ns(at));
        self.begin("X", process, lane);
        self.text(",\"name\":\"#");
        self.number(request.number.into());
        self.text(if end.is_some() {
            "\""
        } else {
            " (in flight)\""
        });
        self.times(begins, ends);
        self.text(",\"args\":{\"bytes\":");
        self.number(request.bytes);
        self.text(if request.posted.is_some() {
            "}}"
        } else {
            ",\"posted\":\"overwritten\"}}"
        });
        if !until_consumed {
            return;
        }
        let stages = [
            ("posted", request.posted),
            ("done", request.done),
            ("unpacked", request.unpacked),
        ];
        let known = stages
            .into_iter()
            .filter_map(|(name, at)| Some((name, at?)));
        let known: [Option<(&str, u64)>; 3] = {
            let mut all = known;
            [all.next(), all.next(), all.next()]
        };
        for (place, stage) in known.iter().enumerate() {
            let Some((name, at)) = stage else { break };
            let until = known
                .get(place + 1)
                .copied()
                .flatten()
                .map(|(_, at)| worker.unix_ns(at))
                .unwrap_or(ends);
            self.begin("X", process, lane);
            self.text(",\"name\":\"");
            self.text(name);
            self.text("\"");
            self.times(worker.unix_ns(*at), until);
            self.text("}");
        }
    }

    /// Writes a failed call as an instant, or a slow call that changes no request as a slice.
    fn call(&mut self, worker: &WorkerTrace, event: &Event, process: usize) {
        let at = worker.unix_ns(event.at_ns);
        if event.kind == EventKind::Failed {
            let text = format!("{} returned {}", event.call.name(), event.code);
            return self.instant(
                process,
                at,
                &text,
                &[("request", &event.request.to_string())],
            );
        }
        self.begin("X", process, CALLS);
        self.text(",\"name\":\"");
        self.text(event.call.name());
        self.text("\"");
        self.times(at.saturating_sub(event.value), at);
        self.text("}");
    }

    fn counts(&mut self, process: usize, at_ns: u64, counts: &Counts, until_consumed: bool) {
        self.begin("C", process, CALLS);
        self.text(",\"name\":\"requests\"");
        self.at(at_ns);
        self.text(",\"args\":{\"not done\":");
        self.number(counts.posted.saturating_sub(counts.done));
        if until_consumed {
            self.text(",\"done, not consumed\":");
            self.number(counts.done.saturating_sub(counts.consumed));
        }
        self.text("}}");
    }

    fn samples(
        &mut self,
        name: &str,
        samples: &[tcpx_run_model::counters::Sample],
        process: usize,
    ) -> io::Result<()> {
        self.process(process, &format!("{name} : sampled"));
        for sample in samples {
            for channel in &sample.channels {
                self.begin("C", process, CALLS);
                self.text(",\"name\":");
                self.json(&format!("{} {} in flight", channel.side, channel.index));
                self.at(sample.at_ns);
                self.text(",\"args\":{\"requests\":");
                self.number(channel.posted.saturating_sub(channel.consumed));
                self.text("}}");
            }
            if self.buffer.len() >= BLOCK {
                self.flush()?;
            }
        }
        self.flush()
    }

    fn process(&mut self, process: usize, name: &str) {
        self.begin("M", process, CALLS);
        self.text(",\"name\":\"process_name\",\"args\":{\"name\":");
        self.json(name);
        self.text("}}");
        self.begin("M", process, CALLS);
        self.text(",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":");
        self.number(process as u64);
        self.text("}}");
    }

    fn lane(&mut self, process: usize, lane: usize, name: &str) {
        self.begin("M", process, lane);
        self.text(",\"name\":\"thread_name\",\"args\":{\"name\":");
        self.json(name);
        self.text("}}");
    }

    fn instant(&mut self, process: usize, at_ns: u64, name: &str, facts: &[(&str, &str)]) {
        self.begin("i", process, CALLS);
        self.text(",\"s\":\"p\",\"name\":");
        self.json(name);
        self.at(at_ns);
        self.text(",\"args\":{");
        for (place, (key, value)) in facts.iter().enumerate() {
            self.text(if place == 0 { "\"" } else { ",\"" });
            self.text(key);
            self.text("\":");
            self.json(value);
        }
        self.text("}}");
    }

    fn begin(&mut self, phase: &str, process: usize, lane: usize) {
        let first = !std::mem::replace(&mut self.any, true);
        self.text(if first {
            "\n{\"ph\":\""
        } else {
            ",\n{\"ph\":\""
        });
        self.text(phase);
        self.text("\",\"pid\":");
        self.number(process as u64);
        self.text(",\"tid\":");
        self.number(lane as u64);
    }

    fn times(&mut self, from: u64, to: u64) {
        self.at(from);
        self.text(",\"dur\":");
        self.microseconds(to.saturating_sub(from));
    }

    fn at(&mut self, at_ns: u64) {
        self.text(",\"ts\":");
        self.microseconds(at_ns.saturating_sub(self.first));
    }

    fn microseconds(&mut self, ns: u64) {
        self.number(ns / 1000);
        let rest = ns % 1000;
        let digit = |at: u64| b'0' + (rest / at % 10) as u8;
        self.buffer
            .extend_from_slice(&[b'.', digit(100), digit(10), digit(1)]);
    }

    fn number(&mut self, number: u64) {
        let mut digits = itoa::Buffer::new();
        self.text(digits.format(number));
    }

    /// Writes a string with JSON escapes.
    fn json(&mut self, text: &str) {
        // Writing text to memory cannot fail.
        let _ = serde_json::to_writer(&mut self.buffer, text);
    }

    fn text(&mut self, text: &str) {
        self.buffer.extend_from_slice(text.as_bytes());
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Counters at an event, computed backwards from those at the end.
struct Counts {
    posted: u64,
    done: u64,
    consumed: u64,
}

impl Counts {
    fn at_start(channel: &ChannelTrace) -> Self {
        let of = |kind| {
            channel
                .events
                .events
                .iter()
                .filter(|event| event.kind == kind)
                .count() as u64
        };
        let sample = &channel.sample;
        Self {
            posted: sample.posted.saturating_sub(of(EventKind::Posted)),
            done: sample.done.saturating_sub(of(EventKind::Done)),
            consumed: sample.consumed.saturating_sub(of(EventKind::Consumed)),
        }
    }

    fn take(&mut self, kind: EventKind) {
        match kind {
            EventKind::Posted => self.posted += 1,
            EventKind::Done => self.done += 1,
            EventKind::Consumed => self.consumed += 1,
            _ => {}
        }
    }
}
