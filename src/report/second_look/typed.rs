//! What typed commands print: the lines behind `$ hostname` or `$ pwgen 12` have no word that tells what they are.
#![forbid(unsafe_code)]

use super::{Found, is_placeholder, prose};
use regex::Regex;
use std::sync::LazyLock;

/// Most lines of a secret.
const LINES_MAX: usize = 8;
/// Longest name.
const NAME_BYTES_MAX: usize = 64;
/// Longest line that may be a command.
const LINE_BYTES_MAX: usize = 4096;
/// Shortest secret.
const SECRET_BYTES_MIN: usize = 4;

struct Patterns {
    prompt: Regex,
    secret: Regex,
    name: Regex,
}

static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    let before = "^(?:(?:sudo|time|srun|exec) )?";
    let secret = concat!(
        r"(?:go)?pass (?:show|generate)|vault (?:kv get|read) -field|vault print token",
        r"|aws (?:ssm get-parameter|secretsmanager get-|ecr get-login)|gcloud (?:secrets versions access|auth .*print-)",
        r"|az (?:keyvault secret show|account get-access-token)|op (?:read|item get)|bw (?:get|generate)",
        r"|lpass (?:show|generate)|keepassxc-cli|secret-tool lookup|security find-generic-password",
        r"|kubectl create token|kubectl .*get secret.*(?: -o|base64|template)|kubeadm token create",
        r"|docker swarm join-token|oc whoami -(?:t|-show-token)|(?:gh|glab|doctl) auth token|heroku auth:token",
        r"|(?:pwgen|apg|makepasswd|mkpasswd|mcookie|xkcdpass|diceware)(?:\s|$)|openssl (?:rand|passwd)|wg gen(?:key|psk)",
        r"|sops (?:-d|decrypt)|ansible-vault (?:view|decrypt)|gpg (?:-d|--decrypt)|age -d|.*/dev/urandom.*\|",
    );
    let name = concat!(
        r"(?:hostname(?:\s+-\w+)?|uname -n|cat /etc/hostname|hostnamectl hostname|(?:echo \$|printenv )HOSTNAME|whoami",
        r"|logname|id -un|echo \$USER|gcloud config get-value project)\s*(?:$|[|;&#-])|scontrol show hostnames",
    );
    Some(Patterns {
        prompt: Regex::new(
            r"^(?:(?:[$#%+\x{276f}]|\+\+|> \$) |[^$#%]{0,100}[@~\]][^$#%]{0,60}[$#%] )",
        )
        .ok()?,
        secret: Regex::new(&format!("{before}(?:{secret})")).ok()?,
        name: Regex::new(&format!("{before}(?:{name})")).ok()?,
    })
});

/// What the lines behind the last command are, and how many of them were seen.
#[derive(Default)]
pub(super) struct Typed {
    is_secret: bool,
    is_name: bool,
    count: usize,
}

impl Typed {
    /// The secrets or the name in a line that a command printed.
    pub(super) fn find(&mut self, line: &str) -> Vec<Found> {
        let Some(patterns) = &*PATTERNS else {
            return vec![Found {
                what: "a text that could not be checked",
                at: 0..line.len(),
            }];
        };
        let is_short = line.len() <= LINE_BYTES_MAX;
        if let Some(prompt) = patterns.prompt.find(line).filter(|_| is_short) {
            let command = line[prompt.end()..].trim();
            *self = Self {
                is_secret: patterns.secret.is_match(command),
                is_name: patterns.name.is_match(command),
                count: 0,
            };
            return Vec::new();
        }
        let word = line.trim();
        if !is_short || word.is_empty() && self.count > 0 {
            *self = Self::default();
        }
        if word.is_empty() || !(self.is_secret || self.is_name) {
            return Vec::new();
        }
        self.count += 1;
        let at = line.len() - line.trim_start().len();
        let is_word = !word.contains(char::is_whitespace) && !is_placeholder(word);
        let mut all = Vec::new();
        let (what, bytes) = match self.is_secret {
            true => (
                "a secret that a command printed",
                SECRET_BYTES_MIN..=LINE_BYTES_MAX,
            ),
            false => ("a name that a command printed", 3..=NAME_BYTES_MAX),
        };
        if is_word && bytes.contains(&word.len()) {
            all.push(Found {
                what,
                at: at..at + word.len(),
            });
        } else if self.is_secret {
            prose::words(line, 0..line.len(), &mut all);
        }
        self.is_name &= is_word || is_placeholder(word);
        self.is_secret &= self.count < LINES_MAX;
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_printed_is_doubted_up_to_the_next_prompt() {
        let mut typed = Typed::default();
        let text = "$ pwgen 8\nkestral\n$ ls\nbavotuki\nada@node0:~$ hostname\nSECRET\nkestrel";
        let doubted: Vec<bool> = text
            .lines()
            .map(|line| !typed.find(line).is_empty())
            .collect();
        assert_eq!(doubted, [false, true, false, false, false, false, true]);
    }
}
