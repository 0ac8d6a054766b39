//! The dynamic section of a shared object: the libraries that it needs and the names that
//! it uses. The file is not loaded, so no constructor of a plugin runs.
//!
//! Only 64-bit little-endian files. Offsets come from the program headers, as in the loader,
//! because the section headers may be stripped. Names come from the dynamic string table,
//! which holds exports and imports; a plugin does not import `ncclNetPlugin_v7`, so that
//! name is an export.
//!
//! Every length and offset in the file is untrusted, and bounded. Not here: deciding whether
//! a file is a plugin at all, which is `plugin_files::inspect`.
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

/// The parts of a dynamic section that are needed here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dynamic {
    /// Libraries that the loader must find (`DT_NEEDED`).
    pub needed: Vec<String>,
    /// Folders to search for them (`DT_RUNPATH`, else `DT_RPATH`), with `$ORIGIN` as written.
    pub run_path: Option<String>,
    strings: Vec<u8>,
}

/// Reads the dynamic section; `None` if the file is not a 64-bit ELF file that has one.
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
        // DT_RPATH, which older linkers write, counts only without a DT_RUNPATH.
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

    fn dynamic_of(bytes: &[u8]) -> Option<Dynamic> {
        dynamic(std::io::Cursor::new(bytes))
    }

    fn this_program() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn this_program_needs_libc_and_names_no_plugin() {
        let dynamic = dynamic_of(&this_program()).unwrap();
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
        fn a_corrupt_header_is_read_within_the_file(changes in prop::collection::vec((0usize..2048, any::<u8>()), 1..24)) {
            let mut head = this_program();
            head.truncate(1 << 16);
            for (at, byte) in changes {
                head[at] = byte;
            }
            if let Some(dynamic) = dynamic_of(&head) {
                prop_assert!(dynamic.needed.len() <= NEEDED_MAX);
            }
        }
    }
}
