//! What a shared object needs and what it names, read from its dynamic section
//! without loading it: no constructor of a plugin runs in whoever looks.
//!
//! 64-bit little-endian only, as everything we load. Names are those of the
//! dynamic string table: what a library exports is among them, and a plugin
//! imports no `ncclNetPlugin_v7`.
//!
//! Every length and offset is a claim of the file's. Not here: deciding whether
//! a file is a plugin at all, which is `plugin::inspect`.
#![forbid(unsafe_code)]

const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const NEEDED: u64 = 1;
const STRING_TABLE: u64 = 5;
const STRING_TABLE_BYTES: u64 = 10;
const RUN_PATH: u64 = 29;
/// What linkers wrote before there was `RUN_PATH`; the loader reads it where there is none.
const OLD_RUN_PATH: u64 = 15;
const SEGMENT_BYTES: usize = 56;
const ENTRY_BYTES: usize = 16;
const SEGMENTS_MAX: usize = 128;
const ENTRIES_MAX: usize = 4096;
/// libnccl's is 150 kB.
const STRINGS_BYTES_MAX: u64 = 16 << 20;
const NEEDED_MAX: usize = 128;

/// The dynamic section, in words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dynamic {
    /// Libraries that must be found for it to load.
    pub needed: Vec<String>,
    /// Where it says to look for them, `$ORIGIN` as written.
    pub run_path: Option<String>,
    strings: Vec<u8>,
}

/// Reads it through `read_at`, which gives up to so many bytes from an offset;
/// none where this is no such file.
pub fn dynamic(read_at: &dyn Fn(u64, usize) -> Option<Vec<u8>>) -> Option<Dynamic> {
    let head = read_at(0, 64)?;
    if head.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let count = usize::from(short(&head, 56)?).min(SEGMENTS_MAX);
    let table = read_at(long(&head, 32)?, count * SEGMENT_BYTES)?;
    let segments: Vec<Segment> = table.chunks_exact(SEGMENT_BYTES).filter_map(Segment::parse).collect();
    let dynamic = segments.iter().find(|segment| segment.kind == DYNAMIC)?;
    let bytes = usize::try_from(dynamic.bytes).ok()?.min(ENTRIES_MAX * ENTRY_BYTES);
    let section = read_at(dynamic.offset, bytes)?;
    let entries: Vec<(u64, u64)> = section
        .chunks_exact(ENTRY_BYTES)
        .filter_map(|entry| Some((long(entry, 0)?, long(entry, 8)?)))
        .take_while(|(tag, _)| *tag != 0)
        .collect();
    let value = |tag: u64| entries.iter().find(|(of, _)| *of == tag).map(|(_, value)| *value);
    let at = file_offset(&segments, value(STRING_TABLE)?)?;
    let length = usize::try_from(value(STRING_TABLE_BYTES)?.min(STRINGS_BYTES_MAX)).ok()?;
    let strings = read_at(at, length)?;
    let needed = entries.iter().filter(|(tag, _)| *tag == NEEDED).filter_map(|(_, at)| string(&strings, *at));
    let needed = needed.take(NEEDED_MAX).collect();
    let run_path = value(RUN_PATH).or_else(|| value(OLD_RUN_PATH)).and_then(|at| string(&strings, at));
    Some(Dynamic { needed, run_path, strings })
}

impl Dynamic {
    /// The names in the string table that start with `prefix`, sorted.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        let all = self.strings.split(|byte| *byte == 0);
        let named = all.filter(|name| name.starts_with(prefix.as_bytes()));
        let mut names: Vec<String> = named.filter_map(|name| String::from_utf8(name.to_vec()).ok()).collect();
        names.retain(|name| name.len() < 256 && name.chars().all(|letter| letter.is_ascii_graphic()));
        names.sort_unstable();
        names.dedup();
        names
    }
}

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    bytes: u64,
}

impl Segment {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let kind = u32::from_le_bytes(*bytes.first_chunk()?);
        Some(Self { kind, offset: long(bytes, 8)?, address: long(bytes, 16)?, bytes: long(bytes, 32)? })
    }
}

fn file_offset(segments: &[Segment], address: u64) -> Option<u64> {
    let mut loads = segments.iter().filter(|segment| segment.kind == LOAD);
    loads.find_map(|segment| {
        let into = address.checked_sub(segment.address).filter(|into| *into < segment.bytes)?;
        segment.offset.checked_add(into)
    })
}

fn string(strings: &[u8], at: u64) -> Option<String> {
    let rest = strings.get(usize::try_from(at).ok()?..)?;
    let text = rest.split(|byte| *byte == 0).next()?;
    Some(crate::printable(&String::from_utf8_lossy(text)))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(bytes: &[u8]) -> Option<Dynamic> {
        dynamic(&|at, length| {
            let from = usize::try_from(at).ok().filter(|from| *from <= bytes.len())?;
            Some(bytes[from..bytes.len().min(from.saturating_add(length))].to_vec())
        })
    }

    fn this_program() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn this_program_needs_libc_and_names_no_plugin() {
        let dynamic = of(&this_program()).unwrap();
        assert!(dynamic.needed.iter().any(|name| name == "libc.so.6"), "{:?}", dynamic.needed);
        assert!(!dynamic.names("__").is_empty());
        assert_eq!(dynamic.names("ncclNetPlugin_v"), Vec::<String>::new());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn a_spoilt_header_is_read_within_the_file(spoils in prop::collection::vec((0usize..2048, any::<u8>()), 1..24)) {
            let mut head = this_program();
            head.truncate(1 << 16);
            for (at, byte) in spoils {
                head[at] = byte;
            }
            if let Some(dynamic) = of(&head) {
                prop_assert!(dynamic.needed.len() <= NEEDED_MAX);
            }
        }
    }
}
