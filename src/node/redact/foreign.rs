//! Names of secrets that are not written in ASCII letters: words of other languages, and words whose
//! letters look like ASCII ones, such as `P\u{430}ssword` with a Cyrillic letter.
#![forbid(unsafe_code)]

use super::ahead::Ahead;
use super::keys;
use aho_corasick::AhoCorasick;
use std::ops::Range;
use std::sync::LazyLock;

/// Words for a secret, and phrases of SQL.
const PHRASES: [&str; 119] = [
    "ключ: ",
    "ключ доступа",
    "lykilorð",
    "Lykilorð",
    "salasõna",
    "Salasõna",
    "құпиясөз",
    "Құпиясөз",
    "d'accès",
    "d\u{2019}accès",
    "jeton",
    "Jeton",
    "p4ssw0rd",
    "P4ssw0rd",
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
    "PIN码",
    "PIN碼",
    "Pin码",
    "pin码",
    "验证码",
    "驗證碼",
    "校验码",
    "授权码",
    "授權碼",
    "认证码",
    "認證碼",
    "提取码",
    "邀请码",
    "激活码",
    "認証コード",
    "확인 코드",
    "인증번호",
    "인증 코드",
    "код доступа",
    "PIN-код",
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
    let mut from = 0;
    for phrase in finder.find_iter(text) {
        // The end of a declined form; in other scripts, the value may follow at once.
        let has_forms = text[..phrase.end()].ends_with(|letter: char| letter < '\u{590}');
        // The rest of a form may have the word again, and ends where the form ends.
        if has_forms && phrase.start() < from {
            continue;
        }
        let behind = &text[phrase.end()..];
        let form = behind.trim_start_matches(|letter: char| has_forms && letter.is_alphabetic());
        let end = phrase.end() + (behind.len() - form.len());
        from = from.max(end);
        found(phrase.start()..end);
    }
    disguised(text, &mut found);
}

/// Names with a letter of another script in them.
fn disguised(text: &str, found: &mut impl FnMut(Range<usize>)) {
    let mut from = 0;
    let (narrow, wide) = (Ahead::default(), Ahead::default());
    loop {
        // Of Greek and Cyrillic letters, and of full-width ones, the first byte.
        let find_narrow = |rest: &str| memchr::memchr3(0xce, 0xd0, 0xd1, rest.as_bytes());
        let find_wide = |rest: &str| memchr::memchr(0xef, rest.as_bytes());
        let at = narrow
            .find(text, from, find_narrow)
            .min(wide.find(text, from, find_wide));
        if at == text.len() {
            return;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_another_script_in_a_form_is_a_name() {
        let text = "\u{43f}\u{430}\u{440}\u{43e}\u{43b}\u{44c}\u{5bc6}\u{7801}abc";
        let mut found = Vec::new();
        names(text, |name| found.push(name));
        assert_eq!(found, [0..text.len(), 12..18]);
    }

    #[test]
    fn a_name_that_goes_on_is_found_once() {
        let text = "\u{43f}\u{430}\u{440}\u{43e}\u{43b}\u{44c}".repeat(100) + ": x P\u{430}ssword";
        let mut found = Vec::new();
        names(&text, |name| found.push(name));
        let end = text.find(':').unwrap_or_default();
        assert_eq!(found, [0..end, end + 4..text.len()]);
    }
}
