//! Names of secrets that are not written in ASCII letters: words of other languages, and words whose
//! letters look like ASCII ones, such as `P\u{430}ssword` with a Cyrillic letter.
#![forbid(unsafe_code)]

use super::keys;
use aho_corasick::AhoCorasick;
use std::ops::Range;
use std::sync::LazyLock;

/// Words for a secret, and phrases of SQL.
const PHRASES: [&str; 85] = [
    "identified by",
    "IDENTIFIED BY",
    "mot de passe",
    "Mot de passe",
    "contraseña",
    "Contraseña",
    "clave secreta",
    "Clave secreta",
    "clé secrète",
    "clé d\u{2019}API",
    "clé d'API",
    "geheimer Schlüssel",
    "пароль",
    "Пароль",
    "ПАРОЛЬ",
    "пароля",
    "токен",
    "Токен",
    "секретный ключ",
    "密码",
    "密碼",
    "口令",
    "令牌",
    "密钥",
    "密鑰",
    "パスワード",
    "暗証番号",
    "トークン",
    "秘密鍵",
    "암호",
    "비밀번호",
    "토큰",
    "비밀키",
    "비밀 키",
    "API 키",
    "APIキー",
    "hasł",
    "Hasł",
    "HASŁO",
    "şifre",
    "Şifre",
    "ŞİFRE",
    "lösenord",
    "Lösenord",
    "mật khẩu",
    "Mật khẩu",
    "parolă",
    "Parolă",
    "jelszó",
    "Jelszó",
    "κωδικός πρόσβασης",
    "Κωδικός πρόσβασης",
    "κωδικός",
    "Κωδικός",
    "συνθηματικό",
    "Συνθηματικό",
    "סיסמה",
    "סיסמא",
    "הסיסמה",
    "كلمة المرور",
    "كلمة السر",
    "رمز الدخول",
    "पासवर्ड",
    "कूटशब्द",
    "รหัสผ่าน",
    "পাসওয়ার্ড",
    "கடவுச்சொல்",
    "گذرواژه",
    "رمز عبور",
    "clé API",
    "Clé API",
    "clé",
    "Clé",
    "clef",
    "kata sandi",
    "Kata sandi",
    "palavra-passe",
    "Palavra-passe",
    "slaptažodis",
    "Slaptažodis",
    "klíč",
    "Schlüssel",
    "API-nyckel",
    "парола",
    "Парола",
];
static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new(PHRASES).ok());

/// Calls `found` with the place of every such name.
pub(super) fn names(text: &str, mut found: impl FnMut(Range<usize>)) {
    let Some(finder) = &*FINDER else { return };
    for phrase in finder.find_iter(text) {
        // The end of a declined form; in other scripts, the value may follow at once.
        let has_forms = text[..phrase.end()].ends_with(|letter: char| letter < '\u{590}');
        let behind = &text[phrase.end()..];
        let form = behind.trim_start_matches(|letter: char| has_forms && letter.is_alphabetic());
        found(phrase.start()..phrase.end() + (behind.len() - form.len()));
    }
    disguised(text, &mut found);
}

/// Names with a letter of another script in them.
fn disguised(text: &str, found: &mut impl FnMut(Range<usize>)) {
    let mut from = 0;
    // Of Greek and Cyrillic letters, and of full-width ones, the first byte.
    while let Some(next) = memchr_of_scripts(&text.as_bytes()[from..]) {
        let at = from + next;
        let begin = text[..at]
            .rfind(|letter: char| !is_of_name(letter))
            .map_or(0, |end| {
                end + text[end..].chars().next().map_or(1, char::len_utf8)
            });
        let behind = text[at..].find(|letter: char| !is_of_name(letter));
        let end = behind.map_or(text.len(), |length| at + length);
        from = end.max(at + 1);
        if !text.is_char_boundary(from) {
            from = text.ceil_char_boundary(from);
        }
        let word = text.get(begin..end).unwrap_or_default();
        if word.len() > 2 * keys::NAME_BYTES_MAX {
            continue;
        }
        let plain: String = word.chars().map(look).collect();
        let is_mixed = plain.is_ascii() && !word.is_ascii();
        if is_mixed && (keys::is_secret(&plain) || keys::weak(&plain) == Some(keys::Weak::Pass)) {
            found(begin..end);
        }
    }
}

fn memchr_of_scripts(bytes: &[u8]) -> Option<usize> {
    let narrow = memchr::memchr3(0xce, 0xd0, 0xd1, bytes);
    let wide = memchr::memchr(0xef, &bytes[..narrow.unwrap_or(bytes.len())]);
    wide.or(narrow)
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '-'
}

/// The ASCII letter that a letter looks like.
fn look(letter: char) -> char {
    const LOOKS: [(&str, char); 13] = [
        ("аΑАα", 'a'),
        ("сС", 'c'),
        ("еЕΕ", 'e'),
        ("іІΙ", 'i'),
        ("кКΚκ", 'k'),
        ("оОΟο", 'o'),
        ("рРΡρ", 'p'),
        ("ѕЅ", 's'),
        ("тТΤ", 't'),
        ("уУΥ", 'y'),
        ("ԁ", 'd'),
        ("ԝ", 'w'),
        ("пΝ", 'n'),
    ];
    // Full-width forms stand in the order of ASCII.
    if ('\u{ff01}'..='\u{ff5e}').contains(&letter) {
        return char::from_u32(u32::from(letter) - 0xfee0).unwrap_or(letter);
    }
    let known = LOOKS.iter().find(|(looks, _)| looks.contains(letter));
    known.map_or(letter, |(_, ascii)| *ascii)
}
