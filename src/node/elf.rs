//! What a shared object needs and what it names, read from its dynamic section
//! without loading it: no constructor of a plugin runs in whoever looks.
//!
//! 64-bit little-endian only, as everything we load. By the program headers, as the
//! loader reads it: a file may be stripped of its sections. Names are those of the
//! dynamic string table: what a library exports is among them, and a plugin imports no
//! `ncclNetPlugin_v7`.
//!
//! Every length and offset is a claim of the file's, and bounded. Not here: deciding
//! whether a file is a plugin at all, which is `plugin_files::inspect`.
#![forbid(unsafe_code)]

use object::elf::{
    DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, FileHeader64, PT_DYNAMIC,
    PT_LOAD,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{LittleEndian as LE, ReadCache, ReadRef};
use std::io::{Read, Seek};

const SEGMENTS_MAX: u16 = 128;
const DYNAMIC_BYTES_MAX: u64 = 1 << 16;
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

/// Reads it; none where this is no such file.
pub(crate) fn dynamic(file: impl Read + Seek) -> Option<Dynamic> {
    let file = &ReadCache::new(file);
    let header = FileHeader64::<LE>::parse(file)
        .ok()
        .filter(|header| header.e_phnum(LE) <= SEGMENTS_MAX)?;
    let segments = header.program_headers(LE, file).ok()?;
    let dynamic = segments
        .iter()
        .find(|segment| segment.p_type(LE) == PT_DYNAMIC)?;
    if dynamic.p_filesz(LE) > DYNAMIC_BYTES_MAX {
        return None;
    }
    let entries = dynamic.dynamic(LE, file).ok()??;
    let entries = || {
        entries
            .iter()
            .take_while(|entry| entry.d_tag(LE) != DT_NULL)
    };
    let value = |tag| {
        entries()
            .find(|entry| entry.d_tag(LE) == tag)
            .map(|entry| entry.d_val(LE))
    };
    let strings_at = value(DT_STRTAB)?;
    let offset = segments
        .iter()
        .filter(|segment| segment.p_type(LE) == PT_LOAD)
        .find_map(|segment| {
            let into = strings_at
                .checked_sub(segment.p_vaddr(LE))
                .filter(|into| *into < segment.p_filesz(LE))?;
            segment.p_offset(LE).checked_add(into)
        })?;
    let strings = file
        .read_bytes_at(offset, value(DT_STRSZ)?.min(STRINGS_BYTES_MAX))
        .ok()?;
    let text = |at: u64| {
        let name = strings
            .get(usize::try_from(at).ok()?..)?
            .split(|byte| *byte == 0)
            .next()?;
        Some(crate::printable(&String::from_utf8_lossy(name)))
    };
    let needed = entries()
        .filter(|entry| entry.d_tag(LE) == DT_NEEDED)
        .filter_map(|entry| text(entry.d_val(LE)));
    Some(Dynamic {
        needed: needed.take(NEEDED_MAX).collect(),
        // What linkers wrote before there was DT_RUNPATH counts where that is not.
        run_path: value(DT_RUNPATH).or_else(|| value(DT_RPATH)).and_then(text),
        strings: strings.to_vec(),
    })
}

impl Dynamic {
    /// The names in the string table that start with `prefix`, sorted.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        let all = self.strings.split(|byte| *byte == 0);
        let named = all.filter(|name| name.starts_with(prefix.as_bytes()));
        let mut names: Vec<String> = named
            .filter_map(|name| String::from_utf8(name.to_vec()).ok())
            .collect();
        names.retain(|name| {
            name.len() < 256 && name.chars().all(|letter| letter.is_ascii_graphic())
        });
        names.sort_unstable();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(bytes: &[u8]) -> Option<Dynamic> {
        dynamic(std::io::Cursor::new(bytes))
    }

    fn this_program() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn this_program_needs_libc_and_names_no_plugin() {
        let dynamic = of(&this_program()).unwrap();
        assert!(
            dynamic.needed.iter().any(|name| name == "libc.so.6"),
            "{:?}",
            dynamic.needed
        );
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
