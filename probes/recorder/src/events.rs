//! Reads rings: the events of one channel, or of the set-up calls, in order, and how many were
//! overwritten.
//!
//! A copy of a ring that is being written may contain half-written entries. The ring's counter,
//! read before and after the copy, tells which: see [`crate::format`]. The file is not trusted:
//! entries with an impossible count, another event's number or an unknown kind are skipped and
//! counted as damaged. The caller and the ring bound how much is read.
#![forbid(unsafe_code)]

use crate::format::{Call, EVENT_BYTES, EventKind, channel, event, life};
use crate::read::{Header, ReadError, Source, read_full, read_header};
use crate::sample::{ChannelSample, oldest_event};
use crate::words::Words;

/// Events of one ring, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Events {
    /// Ordered by number. Damaged events leave gaps in the numbers.
    pub events: Vec<Event>,
    /// Older events of the same life of the slot that were overwritten.
    pub overwritten: u64,
    /// Events that should be present and are not valid.
    pub damaged: u64,
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Number within its ring, counted from 0.
    pub number: u64,
    /// When it happened, nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// What happened.
    pub kind: EventKind,
    /// The call in which it happened.
    pub call: Call,
    /// The call's return code.
    pub code: i32,
    /// The request's number, lowest 32 bits; see [`crate::format`].
    pub request: u32,
    /// Bytes, or for [`EventKind::Called`] nanoseconds that the call took.
    pub value: u64,
    /// A tag of the thread; different threads usually have different tags.
    pub thread: u8,
}

impl Event {
    fn decode(words: Words<'_>, number: u64) -> Option<Self> {
        let rest = words.u64(event::REST);
        Some(Self {
            number: (words.u64(event::SEQUENCE) == number.wrapping_add(1)).then_some(number)?,
            at_ns: words.u64(event::AT_NS),
            kind: EventKind::from_raw(rest >> 40 & 0xff)?,
            call: Call::from_raw(rest >> 48 & 0xff)?,
            code: words.u32(event::CODE) as i32,
            request: words.u32(event::REQUEST),
            value: rest & event::VALUE_MAX,
            thread: (rest >> 56) as u8,
        })
    }
}

pub(crate) fn read_events(
    source: &impl Source,
    header: &Header,
    sample: &ChannelSample,
    max: usize,
    buffer: &mut Vec<u8>,
) -> Result<Events, ReadError> {
    if header.ring_events == 0 || u32::from(sample.slot) >= header.capacity {
        return Ok(Events::default());
    }
    let now = || {
        Ok::<_, ReadError>(
            Counted::read(source, header, sample.slot)?.filter(|now| now.is_of(sample)),
        )
    };
    let Some(before) = now()? else {
        return Ok(Events::default());
    };
    let ring = Ring {
        header,
        index: sample.slot.into(),
        first: before.first,
        next: before.next,
    };
    let copied = ring.copy(source, max, buffer)?;
    // Events written during the copy may have overwritten the oldest copied ones.
    let Some(after) = now()? else {
        return Ok(Events::default());
    };
    let oldest = oldest_event(after.next.max(before.next), header.ring_events);
    Ok(ring.decode(copied, oldest, buffer))
}

/// The slot's fields about its ring, read without the rest of the slot.
struct Counted {
    generation: u32,
    first: u64,
    next: u64,
}

impl Counted {
    const BYTES: usize = channel::FIRST_EVENT + 8;

    fn read(source: &impl Source, header: &Header, slot: u16) -> Result<Option<Self>, ReadError> {
        let mut bytes = [0; Self::BYTES];
        let offset = header
            .sections
            .slots
            .saturating_add(u64::from(slot) * header.sections.slot_bytes as u64);
        if read_full(source, &mut bytes, offset)? < Self::BYTES {
            return Ok(None);
        }
        let words = Words(&bytes);
        let (life, next) = (words.u64(channel::LIFE), words.u64(channel::EVENTS));
        let generation = (life >> life::GENERATION_SHIFT) as u32;
        let first = words.u64(channel::FIRST_EVENT).min(next);
        Ok(
            matches!(life & life::STATE, life::OPEN | life::CLOSED).then_some(Self {
                generation,
                first,
                next,
            }),
        )
    }

    fn is_of(&self, sample: &ChannelSample) -> bool {
        self.generation == sample.generation
    }
}

pub(crate) fn read_setup_events(
    source: &impl Source,
    header: &Header,
    max: usize,
    buffer: &mut Vec<u8>,
) -> Result<Events, ReadError> {
    if header.ring_events == 0 {
        return Ok(Events::default());
    }
    let ring = Ring {
        header,
        index: header.capacity.into(),
        first: 0,
        next: header.setup_events,
    };
    let copied = ring.copy(source, max, buffer)?;
    let after = read_header(source)?;
    let oldest = oldest_event(
        after.setup_events.max(header.setup_events),
        header.ring_events,
    );
    Ok(ring.decode(copied, oldest, buffer))
}

/// One ring, and the range of event numbers to read.
struct Ring<'a> {
    header: &'a Header,
    index: u64,
    first: u64,
    next: u64,
}

impl Ring<'_> {
    /// Copies the newest events, at most `max`, into the buffer. Returns the number of the
    /// first. Bytes that the file lacks are zero.
    fn copy(
        &self,
        source: &impl Source,
        max: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<u64, ReadError> {
        let places = u64::from(self.header.ring_events);
        let from = oldest_event(self.next, self.header.ring_events)
            .max(self.first)
            .max(self.next.saturating_sub(max as u64));
        let ring = self
            .header
            .sections
            .rings
            .saturating_add(self.index * places * EVENT_BYTES as u64);
        buffer.clear();
        buffer.resize((self.next - from) as usize * EVENT_BYTES, 0);
        let mut number = from;
        while number < self.next {
            // Up to the end of the ring; the rest is at its start.
            let place = number % places;
            let count = (places - place).min(self.next - number);
            let start = (number - from) as usize * EVENT_BYTES;
            let part = &mut buffer[start..start + count as usize * EVENT_BYTES];
            read_full(
                source,
                part,
                ring.saturating_add(place * EVENT_BYTES as u64),
            )?;
            number += count;
        }
        Ok(from)
    }

    fn decode(&self, copied: u64, oldest: u64, buffer: &[u8]) -> Events {
        let from = copied.max(oldest).min(self.next);
        let wanted = buffer
            .chunks_exact(EVENT_BYTES)
            .zip(copied..)
            .skip((from - copied) as usize);
        let events: Vec<Event> = wanted
            .filter_map(|(bytes, number)| Event::decode(Words(bytes), number))
            .collect();
        Events {
            overwritten: oldest.max(self.first) - self.first,
            damaged: self.next - from - events.len() as u64,
            events,
        }
    }
}
