//! Secrets in arguments of programs, in configurations of switches, and in lines of files whose format fixes
//! their place: `lftp -u x,VALUE`, `snmp-server community VALUE`, `host:5432:db:user:VALUE`.
#![forbid(unsafe_code)]

use super::prose::is_odd;
use super::{Found, is_replaced};
use regex::{Regex, RegexSet, RegexSetBuilder};
use std::sync::LazyLock;

/// A format with `VALUE`, and whether an ordinary word may stand in its place. `Q` is a quote or nothing.
const RULES: [(&str, bool); 62] = [
    (r"(?:AUTH (?:PLAIN|LOGIN)|New value:| -k) VALUE", true),
    (r"curl .*?(?:-b|--cookie)[= ]Q[A-Za-z0-9_.-]+=VALUE", false),
    (r"(?:^|[ ;|])http -a [A-Za-z0-9_.-]+:VALUE", false),
    (r"etcdctl .*?--user[= ][A-Za-z0-9_.-]+:VALUE", false),
    (r"lftp .*?-u [A-Za-z0-9_.-]+,VALUE", false),
    (r"sqlplus [A-Za-z0-9_.-]+/VALUE", false),
    (
        r"(?:beeline|cqlsh|cypher-shell|certutil|psexec|mongodump|mongorestore|rdesktop|hydra)[ .].*?-p QVALUE",
        false,
    ),
    (r"ssh-keygen .*?-[NP] QVALUE", false),
    (r"-(?:src|dest)?(?:store|key)pass[= ]QVALUE", false),
    (r"-setcookie QVALUE", false),
    (r"(?:unrar|rar|7z) .*? -h?pVALUE", false),
    (r"(?:input|user|owner)_pw VALUE", false),
    (r"net user [A-Za-z0-9_.-]+ VALUE", true),
    (
        r"(?:cargo login|auth init -t|encrypt_string|NickServ identify|add-mask::) ?QVALUE",
        true,
    ),
    (
        r"(?:add_user|change_password|LOGIN) [A-Za-z0-9_.-]+ QVALUE",
        true,
    ),
    (
        r"(?:auth|Auth|PSCredential|login\(\) got )=?\( ?[\x22'][A-Za-z0-9_.-]+[\x22'], ?[\x22']VALUE",
        true,
    ),
    (r"log(?:ged )? ?in with [A-Za-z0-9_.-]+ and VALUE", true),
    (
        r"(?:snmp-server community|tacacs-server key|radius-server key|authentication-key)(?: [0-9])? VALUE",
        true,
    ),
    (r"message-digest-key [0-9]+ md5(?: [0-9])? VALUE", true),
    (r"sec_basic_key VALUE", true),
    (r"stats auth [A-Za-z0-9_.-]+:VALUE", false),
    (r"(?:^|[ -])user = Q[A-Za-z0-9_.-]+:VALUE", false),
    (
        r"(?:echo|printf) (?:-[a-z]+ )?QVALUE[\x22']? *>>? *[^ ]*(?i:pass|secret|token|cred|pw)",
        true,
    ),
    (
        r"(?:echo|printf) (?:-[a-z]+ )?QVALUE[\x22']? *\| *(?:base64|sha256sum|md5sum|smbpasswd)",
        true,
    ),
    (r"<<< ?QVALUE", true),
    (r"tokens[\x22']{0,2} ?[:=] ?\[ ?[\x22']VALUE", true),
    (
        r"^[A-Za-z0-9_.-]+:(?:[0-9]+|\*):[A-Za-z0-9_*.-]+:[A-Za-z0-9_*.-]+:VALUE\s*$",
        true,
    ),
    (r"^[A-Za-z0-9_-]+\s+(?:/dev/|UUID=)[^ \t]+\s+VALUE", true),
    (
        r"(?i)(?:sessionid|csrftoken|pass_phrase|client_assertion)[\x22']? ?[=:] ?QVALUE",
        true,
    ),
    (r"code=VALUE&(?:state|grant_type|client_id)=", false),
    (
        r"(?i)(?:verification|recovery|one-time|backup|login) codes?(?: is|:)? VALUE",
        true,
    ),
    (r"Debugger PIN: VALUE", false),
    (r"^\s*(?:admin|root) / VALUE\s*$", true),
    (
        r"(?i)(?:zugangsdaten|segredo|geheim|lykilorð|salasõna|құпиясөз|ключ):\s*(?:[^ ]+ / )?VALUE",
        true,
    ),
    (r"/t/VALUE/", true),
    (r"(?i)PWD=\{VALUE\}", false),
    (
        r"(?i)(?:token|secret|password): [A-Za-z&<>?]+ = [\x22']VALUE",
        false,
    ),
    (
        r"(?i)\*\*(?:token|password|secret|api key):?\*\*:? VALUE",
        true,
    ),
    (
        r"(?i)<[a-z]*(?:token|password|secret|key)>\s*<!\[CDATA\[VALUE",
        false,
    ),
    (r"sk ?[:=] ?QVALUE", true),
    (r"pwd/VALUE|password/VALUE", true),
    (r"--with-token.*?<<< ?QVALUE", true),
    (
        r"(?i)PASS(?:WORD)?[\x{200b}\x{200c}\x{200d}\x{2060}\x{feff}]+(?:word)? ?[:=] ?QVALUE",
        true,
    ),
    (
        r"\b(?:sshpass|docker login|podman login) .*?-p ?QVALUE",
        false,
    ),
    (r"\bcurl .*?-u Q[A-Za-z0-9_.-]+:VALUE", false),
    (r"\b(?:mysql|mysqldump|mysqladmin) .*?-pVALUE", false),
    (r"\bredis-cli .*?-a QVALUE", false),
    (
        r"\becho (?:-n )?QVALUE[\x22']? *\| *(?:sudo -S|.*--password-stdin)",
        false,
    ),
    (r"^\s*credentials: [A-Za-z0-9_.-]+ / VALUE\s*$", false),
    (r"SecureString.*?QVALUE[\x22'] -AsPlain", true),
    (r"(?i)\buser [a-z0-9_.-]+, pass VALUE", false),
    (r"(?i)\blog ?in with [a-z0-9_.-]+/VALUE", false),
    (r"(?i)\busing (?:api key|token) VALUE\s*$", false),
    (r"^\s*token=VALUE\s*$", false),
    (r"(?i)\botp:? VALUE\s*$", false),
    (r"\blogin (?:.*? )?--token[= ]QVALUE", false),
    (
        r"\bhelm registry login .*?(?:-p |--password[= ])QVALUE",
        false,
    ),
    (
        r"(?i)\bconfigure set [a-z0-9_.]*(?:secret|token|password)[a-z0-9_]* VALUE",
        false,
    ),
    (r"jdbc:oracle:[a-z]+:[A-Za-z0-9_.-]+/VALUE@", false),
    (r"--from-literal=[A-Za-z0-9_.-]+=QVALUE", false),
    (r"\bwandb login (?:--?[a-z-]+ )*([0-9]{5,})", false),
    (r"(?i)ctrl\+c to quit: VALUE", false),
];
/// Most memory of the automaton of all rules: as in `formats.rs`.
const AUTOMATON_BYTES_MAX: usize = 32 << 20;

static PATTERNS: LazyLock<Option<(RegexSet, Vec<Regex>)>> = LazyLock::new(|| {
    let value = r"([^\s\x22'`,;|&()<>\]}@/\\]{4,})";
    let written = RULES.map(|(rule, _)| rule.replace("VALUE", value).replace('Q', r"[\x22']?"));
    let regexes = written.iter().map(|rule| Regex::new(rule));
    let set = RegexSetBuilder::new(&written)
        .size_limit(AUTOMATON_BYTES_MAX)
        .dfa_size_limit(AUTOMATON_BYTES_MAX)
        .build();
    Some((set.ok()?, regexes.collect::<Result<_, _>>().ok()?))
});

/// The secrets in a line that its format tells.
pub(super) fn find(line: &str) -> Vec<Found> {
    let Some((set, regexes)) = &*PATTERNS else {
        return vec![found(0..line.len())];
    };
    let mut all = Vec::new();
    for number in set.matches(line) {
        let is_word = RULES[number].1;
        for captures in regexes[number].captures_iter(line) {
            let values = captures.iter().skip(1).flatten();
            let values = values.filter(|value| {
                let written = value.as_str();
                let is_reference = written.starts_with(['$', '%', '-', '{']);
                !is_replaced(written) && !is_reference && (!is_word || is_odd(written))
            });
            all.extend(values.map(|value| found(value.range())));
        }
    }
    all
}

fn found(at: std::ops::Range<usize>) -> Found {
    Found {
        what: "an argument that is a secret",
        at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_a_pattern() {
        assert!(PATTERNS.is_some());
    }
}
