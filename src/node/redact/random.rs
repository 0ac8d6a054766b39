//! Words that no person chose: keys and tokens of any issuer, by how their letters and digits
//! alternate, by a prefix before hexadecimal digits, by groups as of a licence key, or because
//! they are `user:password` in base64.
//!
//! Hashes, ids of containers, names of C++ and names of files stay: a hash is hexadecimal
//! and stands alone or behind the name of its kind.
#![forbid(unsafe_code)]

use super::keys::is_words;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use std::ops::Range;

/// Shortest word that is a secret because it looks random, with signs of base64 in it.
const WITH_SIGNS_MIN: usize = 32;
/// Shortest run of letters and digits of one case, and of both, that is one. A shorter one of both
/// alternates more.
const ONE_CASE_MIN: usize = 24;
const BOTH_CASES_MIN: usize = 16;
const BOTH_CASES_LONG: usize = 20;
/// Shortest word of base64 whose parts are all irregular, shortest of its longest part, and longest part that is not looked at.
const IRREGULAR_MIN: usize = 20;
const IRREGULAR_PART_MIN: usize = 6;
const SHORT_PART_MAX: usize = 3;
/// Fewest hexadecimal digits behind a prefix that are a key.
const HEX_MIN: usize = 32;
/// Shortest and longest word that may be `user:password` in base64.
const LOGIN_BYTES: std::ops::RangeInclusive<usize> = 12..=512;
/// What stands before hexadecimal digits that are a hash or an id.
const OF_HASHES: [&str; 22] = [
    "md5",
    "sha",
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "blake2",
    "blake3",
    "hash",
    "digest",
    "commit",
    "git",
    "rev",
    "id",
    "docker",
    "containerd",
    "crio",
    "libpod",
    "container",
    "sandbox",
    "layer",
];

/// The places of random words, in no order. They may overlap.
pub(super) fn places(text: &str, places: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+/=~.:".contains(byte);
    let mut at = 0;
    while at < bytes.len() {
        let length = bytes[at..].iter().take_while(|byte| is_part(byte)).count();
        if length >= *LOGIN_BYTES.start() && !is_symbol(&bytes[at..]) {
            of_word(text, at..at + length, places);
        }
        at += length + 1;
    }
}

/// Whether a word is the name of a function of C++ or Rust: `_ZN4core3fmt`, `_Z14tcpxConnect_v5iPv`.
fn is_symbol(word: &[u8]) -> bool {
    matches!(
        word,
        [b'_', b'Z', b'N' | b'K' | b'T' | b'0'..=b'9', ..] | [b'_', b'R', b'N' | b'I' | b'Y', ..]
    )
}

/// What is random in a word; its folders, and what a sign separates, are looked at one by one.
fn of_word(text: &str, at: Range<usize>, places: &mut Vec<Range<usize>>) {
    base64(text, at.clone(), places);
    let mut from = at.start;
    let mut follows_key = false;
    for part in text[at].split(['/', '=', ':', '+']) {
        let is_key = runs(part).any(is_random_run) || is_behind_prefix(part) || is_grouped(part);
        // The parts of one key may be hexadecimal.
        if is_key || (follows_key && is_hex(part)) {
            push(text, from..from + part.len(), places);
            follows_key = true;
        }
        from += part.len() + 1;
    }
}

fn is_hex(text: &str) -> bool {
    text.len() >= HEX_MIN && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Words of base64: with its signs, and `user:password`.
fn base64(text: &str, at: Range<usize>, places: &mut Vec<Range<usize>>) {
    let mut from = at.start;
    for part in text[at].split([':', '.']) {
        // Padding ends a word; `=` between two words is a sign.
        let mut begin = from;
        for word in part.split_inclusive('=') {
            let digits = word.trim_end_matches('=');
            let end = begin + digits.len();
            if is_random(digits) || is_irregular(digits) {
                push(text, begin..end, places);
            } else {
                let mut inner = begin;
                for folder in digits.split('/') {
                    if is_random(folder) {
                        push(text, inner..inner + folder.len(), places);
                    }
                    inner += folder.len() + 1;
                }
            }
            if is_login(digits) {
                push(text, begin..end, places);
            }
            begin += word.len();
        }
        from += part.len() + 1;
    }
}

/// Adds a place, with the padding of base64 behind it; a sign stands between two words.
fn push(text: &str, place: Range<usize>, places: &mut Vec<Range<usize>>) {
    let behind = &text.as_bytes()[place.end..];
    let padding = behind.iter().take_while(|byte| **byte == b'=').count();
    let is_sign = behind.get(padding).is_some_and(u8::is_ascii_alphanumeric);
    places.push(place.start..place.end + if is_sign { 0 } else { padding });
}

/// Runs of letters and digits, without a pointer at their end: `softCommProgress0x55b694a97408`.
fn runs(word: &str) -> impl Iterator<Item = &str> {
    let runs = word.split(|letter: char| !letter.is_ascii_alphanumeric());
    runs.map(|run| match run.rsplit_once("0x") {
        Some((before, pointer)) if is_pointer(pointer) => before,
        _ => run,
    })
}

/// Whether a text is the digits of an address in memory.
fn is_pointer(digits: &str) -> bool {
    (8..=16).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[derive(Debug, Default)]
struct Counts {
    digits: usize,
    upper: usize,
    lower: usize,
    /// Neighbours of different classes.
    changes: usize,
    /// Letters in runs of four and more of lower case, as in a name.
    spelled: usize,
}

fn counts(word: &str) -> Counts {
    let class = |byte: &u8| match byte {
        b'0'..=b'9' => Some(0),
        b'A'..=b'Z' => Some(1),
        b'a'..=b'z' => Some(2),
        _ => None,
    };
    let mut counts = Counts::default();
    for run in word
        .as_bytes()
        .chunk_by(|one, next| class(one) == class(next))
    {
        match class(&run[0]) {
            Some(0) => counts.digits += run.len(),
            Some(1) => counts.upper += run.len(),
            Some(_) => {
                counts.lower += run.len();
                counts.spelled += if run.len() >= 4 { run.len() } else { 0 };
            }
            None => {}
        }
    }
    let neighbours = word.bytes().zip(word.bytes().skip(1));
    counts.changes = neighbours
        .filter(|(one, next)| {
            let (one, next) = (class(one), class(next));
            one.is_some() && next.is_some() && one != next
        })
        .count();
    counts
}

/// Whether a word of base64 looks random: digits and letters of both cases, which alternate.
pub(super) fn is_random(word: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"_-+/~".contains(&byte);
    let Counts {
        digits,
        upper,
        lower,
        changes,
        ..
    } = counts(word);
    word.len() >= WITH_SIGNS_MIN
        && word.bytes().all(is_sign)
        && digits >= 4
        && upper >= 6
        && lower >= 6
        && changes * 3 >= word.len()
}

/// Whether a word with slashes or signs of addition is base64 and no path: `5k4JTGW7GDP/4Idq6jKLHjZD`. Letters of both
/// cases and digits alternate in each of its parts, as in no name of a folder.
fn is_irregular(word: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/".contains(&byte);
    if word.len() < IRREGULAR_MIN
        || word.starts_with('/')
        || !word.contains(['+', '/'])
        || !word.bytes().all(is_digit)
    {
        return false;
    }
    let is_part = |part: &str| {
        let counts = counts(part);
        part.len() <= SHORT_PART_MAX
            || (counts.changes * 3 >= part.len() && counts.spelled * 2 < part.len())
    };
    let all = counts(word);
    let longest = word.split(['+', '/']).map(str::len).max();
    all.digits >= 1
        && all.upper >= 3
        && all.lower >= 3
        && all.changes * 5 >= word.len() * 2
        && longest >= Some(IRREGULAR_PART_MIN)
        && word.split(['+', '/']).all(is_part)
}

/// Whether a run of letters and digits looks random. A hash does not, nor does a name.
fn is_random_run(run: &str) -> bool {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if run.len() < BOTH_CASES_MIN
        || is_number(run)
        || run.strip_prefix('g').is_some_and(is_number)
        || run.starts_with("0x")
    {
        return false;
    }
    let counts = counts(run);
    let is_both = counts.upper >= 3 && counts.lower >= 3;
    match is_both {
        true if run.len() < BOTH_CASES_LONG => {
            counts.changes * 2 >= run.len() && counts.spelled * 3 < run.len() && counts.digits >= 2
        }
        true => {
            counts.changes * 5 >= run.len() * 2
                && counts.spelled * 2 < run.len()
                && counts.digits >= 2
        }
        false if run.len() < BOTH_CASES_LONG => false,
        false if counts.lower == 0 => counts.digits >= 3 && counts.changes >= 6,
        // Half of the digits of hexadecimal numbers alternate, and a third of those of base 36.
        false => run.len() >= ONE_CASE_MIN && counts.digits >= 3 && counts.changes * 4 >= run.len(),
    }
}

/// A word and hexadecimal digits, `rubygems_1f3a…`: only a key is written so, a hash stands
/// behind the name of its kind.
fn is_behind_prefix(word: &str) -> bool {
    let mut parts = word.split(['_', '-', '.']);
    let mut before = parts.next().unwrap_or_default();
    for part in parts {
        let is_of_hash = OF_HASHES.iter().any(|of| before.eq_ignore_ascii_case(of));
        if is_hex(part) && !is_of_hash && !before.is_empty() {
            return true;
        }
        before = part;
    }
    // Mailchimp: 32 digits and the name of a data centre, `-us12`.
    let centre = word.rsplit_once("-us").filter(|(key, _)| is_hex(key));
    if centre.is_some_and(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit())) {
        return true;
    }
    // `abcdef.0123456789abcdef`, with which a node joins a cluster.
    let is_lower = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    word.split_once('.').is_some_and(|(id, rest)| {
        id.len() == 6 && rest.len() == 16 && is_lower(id) && is_lower(rest) && {
            let counts = counts(rest);
            counts.digits >= 2 && counts.lower >= 2 && !rest.ends_with('z')
        }
    })
}

/// Groups of capitals and digits, `A3-2H6Z69-46WZ98949T6-629ID-TRV79`.
fn is_grouped(word: &str) -> bool {
    let is_part = |part: &&str| {
        part.len() >= 5
            && part
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
    };
    let groups: Vec<&str> = word.split('-').filter(is_part).collect();
    let mixed = groups.iter().filter(|part| {
        let counts = counts(part);
        counts.digits > 0 && counts.upper > 0
    });
    groups.len() >= 4 && mixed.count() >= 3
}

/// Whether a word is `user:password` in base64.
fn is_login(word: &str) -> bool {
    let has = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
    let is_mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    if !is_mixed || !LOGIN_BYTES.contains(&word.len()) || is_words(word) {
        return false;
    }
    let Ok(decoded) = STANDARD_NO_PAD.decode(word) else {
        return false;
    };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._@+-$".contains(byte);
    let colon = decoded.iter().position(|byte| *byte == b':');
    colon.is_some_and(|colon| {
        colon > 0
            && colon + 2 < decoded.len()
            && decoded[..colon].iter().all(is_name)
            && decoded[colon..]
                .iter()
                .all(|byte| (0x20..0x7f).contains(byte))
    })
}

#[cfg(test)]
mod tests {
    use super::super::Redactor;
    use proptest::strategy::{Strategy, ValueTree};
    use proptest::string::string_regex;
    use proptest::test_runner::TestRunner;

    /// Published formats of keys, none of which is named in this module.
    const FORMATS: [&str; 36] = [
        "[A-Za-z0-9]{11}/[A-Za-z0-9]{12}",
        "[A-Za-z0-9]{12}[+][A-Za-z0-9]{18}=",
        "patA[A-Za-z0-9]{13}\\.[a-f0-9]{64}",
        "LTAI[A-Za-z0-9]{20}",
        "A3-[A-Z0-9]{6}-[A-Z0-9]{11}-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}",
        "glsa_[A-Za-z0-9]{32}_[a-f0-9]{8}",
        "dp\\.pt\\.[A-Za-z0-9]{43}",
        "shp(at|ca|ss)_[a-f0-9]{32}",
        "NRAK-[A-Z0-9]{27}",
        "PMAK-[a-f0-9]{24}-[a-f0-9]{34}",
        "rubygems_[a-f0-9]{48}",
        "sntryu_[a-f0-9]{64}",
        "pul-[a-f0-9]{40}(\\.toml)?",
        "dt0c01\\.[A-Z0-9]{24}\\.[A-Z0-9]{64}",
        "ntn_[0-9]{11}[A-Za-z0-9]{35}",
        "figd_[A-Za-z0-9]{40}",
        "xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}",
        "gsk_[A-Za-z0-9]{52}",
        "r8_[A-Za-z0-9]{37}",
        "pplx-[A-Za-z0-9]{48}",
        "tskey-auth-k[A-Za-z0-9]{11}CNTRL-[A-Za-z0-9]{32}",
        "CLOJARS_[a-z0-9]{60}",
        "FLWSECK-[a-z0-9]{32}-X",
        "AstraCS:[A-Za-z0-9]{24}:[a-f0-9]{64}",
        "oy2[a-z0-9]{43}",
        "AQ\\.Ab8R[A-Za-z0-9]{40}",
        "K10[a-f0-9]{64}::server:[a-f0-9]{32}",
        "wandb_v1_[A-Za-z0-9]{60}",
        "v1\\.0-[a-f0-9]{24}-[a-f0-9]{150}",
        "lsv2_(pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}",
        "pcsk_[A-Za-z0-9]{5}_[A-Za-z0-9]{63}",
        "fw_[A-Za-z0-9]{22}",
        "xai-[A-Za-z0-9]{80}",
        "tgp_v1_[A-Za-z0-9]{43}",
        "[A-Z2-7]{32}",
        "[a-z0-9]{32}",
    ];
    const TRIES: usize = 100;
    /// By chance, a short key may look like a name.
    const MISSED_MAX: usize = 8;

    #[test]
    fn keys_of_any_issuer_are_replaced() {
        let mut runner = TestRunner::deterministic();
        for format in FORMATS {
            let keys = string_regex(format).expect("a format");
            let mut missed = Vec::new();
            for _ in 0..TRIES {
                let key = keys.new_tree(&mut runner).expect("a key").current();
                let text = Redactor::default().redact(&format!("worker 3 uses {key} for this run"));
                if (0..key.len() - 11).any(|at| text.contains(&key[at..at + 12])) {
                    missed.push(text);
                }
            }
            assert!(
                missed.len() <= MISSED_MAX,
                "{format}: {} of {TRIES}, {}",
                missed.len(),
                missed[0]
            );
        }
    }

    #[test]
    fn names_hashes_and_ids_are_kept() {
        for text in [
            "_Z14tcpxConnect_v5iPvPS_PP24ncclNetDeviceHandle_v7_t",
            "_ZN4core3net11socket_addr12SocketAddrV63new17hcf8464b154a2b940E",
            "sha256:3d29f0ffb4fd4406e92eaee687d4525235ae9648ca5f01ab1be47c963920ac88",
            "cri-containerd-3d29f0ffb4fd4406e92eaee687d4525235ae9648ca5f01ab1be47c963920ac88.scope",
            "v1.2-4-g3d29f0ffb4fd4406e92eaee687d4525235ae9648",
            "3d29f0ffb4fd4406e92eaee687d4525235ae9648.json",
            "worker-20261120T101500Z-two-gpus-26803-435068.tcpxrec",
            "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS=1000000",
            "a3-highgpu-8g GPUDirectTCPX_v7 x86_64-unknown-linux-gnu avx512_vpopcntdq",
            "sem.module.function0123456789",
            "src/transport/net_ib.cc org/apache/Foo1/BarBaz meta-llama/Llama-3-8B feature/IB2GpuDirect",
            "com/google/protobuf/Any1 nvidia/cuda/H100/SXM5 torch/csrc/distributed/c10d/NCCLUtils.hpp",
        ] {
            let mut places = Vec::new();
            super::places(text, &mut places);
            let shown: Vec<&str> = places.into_iter().map(|place| &text[place]).collect();
            assert_eq!(shown, Vec::<&str>::new(), "{text}");
        }
    }
}
