//! Puts anchors into the buckets of vector searches, which makes them faster.
//!
//! Teddy (aho-corasick's `packed`) puts string i into bucket i modulo 16. For each bucket
//! and each of the first four bytes it keeps only the set of low and of high half bytes. A
//! bucket of similar strings has few false candidates; a bucket of different strings has
//! many, and each must be verified. An anchor has several variants, so each bucket takes the
//! one that suits it. Results do not depend on any of this.
//!
//! A search takes at most 64 strings; more anchors need several searches, one after another
//! in each block. For 256 MiB with a hit in every hundredth line: 0.13 s with 64 anchors in
//! one search, 0.16 s with 106 in two; without variants 0.22 s and 0.33 s. A third search costs little: for 192 MiB on a VM with two
//! CPUs, medians of 5 interleaved runs, 2026-11-24, two searches for 128 anchors and three for 130 took
//! 0.61 s and 0.60 s of CPU with 1 % of lines that match, 0.74 s and 0.75 s at 20 %, 0.90 s and 0.90 s at
//! 80 %, 0.43 s and 0.44 s for lines of TCPX; ripgrep 15.1.0 with the same 458 literals took 0.34 s,
//! 0.38 s, 0.40 s and 0.38 s. The literals added since then cost 5 to 6 % more.
#![forbid(unsafe_code)]

use super::anchors::Anchor;

/// Strings of one search.
const SEARCH_MAX: usize = 64;
const BUCKETS: usize = 16;
/// Bytes of a string that Teddy compares.
const KNOWN: usize = 4;

/// Index of an anchor, and the variant to search for.
pub(super) type Chosen<'a> = (usize, &'a [u8]);

/// The strings of each search, in its order. `text` is a sample of what is searched.
pub(super) fn searches<'a>(anchors: &[Anchor<'a>], text: &[u8]) -> Vec<Vec<Chosen<'a>>> {
    let count = anchors.len().div_ceil(SEARCH_MAX);
    let buckets = fill(anchors, count * BUCKETS, &Shares::new(text));
    buckets.chunks(BUCKETS).map(in_rows).collect()
}

/// The first string of each bucket, then the second of each.
fn in_rows<'a>(buckets: &[Vec<Chosen<'a>>]) -> Vec<Chosen<'a>> {
    let rows = buckets.iter().map(Vec::len).max().unwrap_or_default();
    (0..rows)
        .flat_map(|row| {
            buckets
                .iter()
                .filter_map(move |bucket| bucket.get(row).copied())
        })
        .collect()
}

/// Buckets of similar strings, the fuller ones first.
fn fill<'a>(anchors: &[Anchor<'a>], count: usize, shares: &Shares) -> Vec<Vec<Chosen<'a>>> {
    let mut left: Vec<usize> = (0..anchors.len()).collect();
    let mut buckets = vec![Vec::new(); count];
    for (number, bucket) in buckets.iter_mut().enumerate() {
        let size = anchors.len() / count + usize::from(number < anchors.len() % count);
        let mut halves = Halves::default();
        while bucket.len() < size {
            let passing = Passing::new(&halves, shares);
            // The variant of an anchor that lets the fewest places of the text pass.
            let best_variant = |index: &usize| {
                let passed = |variant: &&'a [u8]| (passing.with(variant), *index, *variant);
                let variants = anchors[*index].variants.iter().map(passed);
                variants.min_by(|a, b| a.0.total_cmp(&b.0))
            };
            let all = left.iter().filter_map(best_variant);
            // A bucket starts with the anchor that most places pass.
            let best = if bucket.is_empty() {
                all.max_by(|a, b| a.0.total_cmp(&b.0))
            } else {
                all.min_by(|a, b| a.0.total_cmp(&b.0))
            };
            let Some((_, index, variant)) = best else {
                break;
            };
            left.retain(|other| *other != index);
            halves = halves.with(variant);
            bucket.push((index, variant));
        }
    }
    buckets
}

/// For each of the first bytes, the sets of low and of high half bytes, as bits.
#[derive(Default, Clone, Copy)]
struct Halves([(u16, u16); KNOWN]);

impl Halves {
    fn with(mut self, string: &[u8]) -> Self {
        for ((low, high), byte) in self.0.iter_mut().zip(string) {
            *low |= 1 << (byte & 15);
            *high |= 1 << (byte >> 4);
        }
        self
    }
}

/// What a bucket with one string more would let pass: for each of its first bytes and each value of it, the
/// share of bytes in a text.
struct Passing([[f64; 256]; KNOWN]);

impl Passing {
    fn new(halves: &Halves, shares: &Shares) -> Self {
        Self(halves.0.map(|(low, high)| shares.with_each(low, high)))
    }

    /// The share of places in a text that are candidates, as if its bytes were independent.
    fn with(&self, string: &[u8]) -> f64 {
        let known = self.0.iter().zip(string);
        known
            .map(|(shares, byte)| shares[usize::from(*byte)])
            .product()
    }
}

/// The frequency of each byte value in a text by its high and its low half; never zero.
struct Shares([[f64; 16]; 16]);

impl Shares {
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn new(text: &[u8]) -> Self {
        let mut counts = [[1_usize; 16]; 16];
        for byte in text {
            counts[usize::from(byte >> 4)][usize::from(byte & 15)] += 1;
        }
        Self(counts.map(|row| row.map(|count| count as f64 / (text.len() + 256) as f64)))
    }

    /// For each byte value: the share of bytes whose halves are both in these sets and its own.
    fn with_each(&self, low: u16, high: u16) -> [f64; 256] {
        let row = |row: usize| bits(low).map(|column| self.0[row][column]).sum::<f64>();
        let rows: [f64; 16] = std::array::from_fn(row);
        let column = |column: usize| bits(high).map(|row| self.0[row][column]).sum::<f64>();
        let columns: [f64; 16] = std::array::from_fn(column);
        let now: f64 = bits(high).map(|row| rows[row]).sum();
        let is_in = |set: u16, bit: usize| set >> bit & 1 == 1;
        std::array::from_fn(|byte| {
            let (row, column) = (byte >> 4, byte & 15);
            now + match (is_in(high, row), is_in(low, column)) {
                (true, true) => 0.0,
                (true, false) => columns[column],
                (false, true) => rows[row],
                (false, false) => rows[row] + columns[column] + self.0[row][column],
            }
        })
    }
}

/// The indices of the bits that are set.
fn bits(set: u16) -> impl Iterator<Item = usize> {
    (0..16).filter(move |bit| set >> bit & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn anchors<'a>(strings: &[&'a [u8]]) -> Vec<Anchor<'a>> {
        let anchor = |(index, text): (usize, &&'a [u8])| Anchor {
            text,
            variants: text.windows(4).collect(),
            literals: vec![index],
        };
        strings.iter().enumerate().map(anchor).collect()
    }

    #[test]
    fn similar_strings_share_a_bucket() {
        let strings: Vec<String> = (0..16)
            .flat_map(|one| [format!("{one:x}abc"), format!("{one:x}abd")])
            .collect();
        let mixed: Vec<&[u8]> = strings
            .iter()
            .step_by(2)
            .chain(strings.iter().skip(1).step_by(2))
            .map(String::as_bytes)
            .collect();
        let buckets = fill(&anchors(&mixed), BUCKETS, &Shares::new(b"0123456789abcdef"));
        assert!(
            buckets
                .iter()
                .all(|bucket| bucket[0].1[0] == bucket[1].1[0]),
            "{buckets:?}"
        );
    }

    #[test]
    fn the_rarest_variant_is_searched_for() {
        let searches = searches(&anchors(&[b"eeeeqxzv"]), b"eeeeeeee");
        assert_eq!(searches, [[(0, &b"qxzv"[..])]]);
    }

    #[test]
    fn more_anchors_need_more_searches() {
        let strings: Vec<String> = (0..150).map(|index| format!("s{index:03}")).collect();
        let strings: Vec<&[u8]> = strings.iter().map(String::as_bytes).collect();
        let sizes: Vec<usize> = searches(&anchors(&strings), b"")
            .iter()
            .map(Vec::len)
            .collect();
        assert_eq!(sizes.len(), 3);
        assert!(sizes.iter().all(|size| *size <= SEARCH_MAX), "{sizes:?}");
        assert!(searches(&[], b"").is_empty());
    }

    proptest! {
        #[test]
        fn the_share_with_a_byte_more_is_that_of_both_sets(low: u16, high: u16, text: Vec<u8>) {
            let shares = Shares::new(&text);
            let with_each = shares.with_each(low, high);
            for byte in 0..=u8::MAX {
                let (low, high) = (low | 1 << (byte & 15), high | 1 << (byte >> 4));
                let of_row = |row: usize| bits(low).map(|column| shares.0[row][column]).sum::<f64>();
                let expected: f64 = bits(high).map(of_row).sum();
                prop_assert!((with_each[usize::from(byte)] - expected).abs() < 1e-12);
            }
        }

        #[test]
        fn every_anchor_has_one_place(strings in prop::collection::vec("[a-e ]{4,9}", 1..150)) {
            let strings: Vec<&[u8]> = strings.iter().map(String::as_bytes).collect();
            let anchors = anchors(&strings);
            let mut placed = Vec::new();
            for search in searches(&anchors, b"abcde") {
                // Number i modulo 16 is its bucket.
                prop_assert!(search.len() <= SEARCH_MAX);
                for (index, variant) in search {
                    prop_assert!(anchors[index].variants.contains(&variant));
                    placed.push(index);
                }
            }
            placed.sort_unstable();
            prop_assert_eq!(placed, (0..strings.len()).collect::<Vec<_>>());
        }
    }
}
