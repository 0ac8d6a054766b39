//! What typed commands print: secrets (`$ pass show x`, `$ openssl rand -hex 16`) and names (`$ hostname`). The
//! lines behind such a command, up to the next prompt, have no word that tells what they are.
//!
//! Not here: commands that print the variable or the file of a secret, which `telling.rs` knows by its name.
#![forbid(unsafe_code)]

use super::context::Kind;
use super::keys::is_absent;
use super::telling;
use std::ops::Range;

/// What the lines behind a command are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Secret,
    /// A name, on one line.
    Name(Kind),
    /// A name on each line.
    Names(Kind),
}

/// Beginnings of commands, behind which a word ends.
const COMMANDS: [(&str, Output); 66] = [
    ("pass show", Output::Secret),
    ("gopass show", Output::Secret),
    ("pass generate", Output::Secret),
    ("vault kv get -field", Output::Secret),
    ("vault read -field", Output::Secret),
    ("vault print token", Output::Secret),
    ("aws ssm get-parameter", Output::Secret),
    ("aws ssm get-parameters", Output::Secret),
    ("aws secretsmanager get-secret-value", Output::Secret),
    ("aws secretsmanager get-random-password", Output::Secret),
    ("aws ecr get-login-password", Output::Secret),
    ("gcloud secrets versions access", Output::Secret),
    ("gcloud auth print-access-token", Output::Secret),
    ("gcloud auth print-identity-token", Output::Secret),
    (
        "gcloud auth application-default print-access-token",
        Output::Secret,
    ),
    ("az keyvault secret show", Output::Secret),
    ("az account get-access-token", Output::Secret),
    ("op read", Output::Secret),
    ("op item get", Output::Secret),
    ("bw get", Output::Secret),
    ("bw generate", Output::Secret),
    ("lpass show", Output::Secret),
    ("lpass generate", Output::Secret),
    ("keepassxc-cli show", Output::Secret),
    ("keepassxc-cli clip", Output::Secret),
    ("secret-tool lookup", Output::Secret),
    ("security find-generic-password", Output::Secret),
    ("kubectl create token", Output::Secret),
    ("kubeadm token create", Output::Secret),
    ("docker swarm join-token", Output::Secret),
    ("oc whoami -t", Output::Secret),
    ("oc whoami --show-token", Output::Secret),
    ("gh auth token", Output::Secret),
    ("glab auth token", Output::Secret),
    ("heroku auth:token", Output::Secret),
    ("doctl auth token", Output::Secret),
    ("pwgen", Output::Secret),
    ("apg", Output::Secret),
    ("makepasswd", Output::Secret),
    ("mkpasswd", Output::Secret),
    ("mcookie", Output::Secret),
    ("xkcdpass", Output::Secret),
    ("diceware", Output::Secret),
    ("openssl rand", Output::Secret),
    ("openssl passwd", Output::Secret),
    ("wg genkey", Output::Secret),
    ("wg genpsk", Output::Secret),
    ("sops -d", Output::Secret),
    ("sops decrypt", Output::Secret),
    ("ansible-vault view", Output::Secret),
    ("ansible-vault decrypt", Output::Secret),
    ("gpg -d", Output::Secret),
    ("gpg --decrypt", Output::Secret),
    ("age -d", Output::Secret),
    ("hostname", Output::Name(Kind::Node)),
    ("uname -n", Output::Name(Kind::Node)),
    ("cat /etc/hostname", Output::Name(Kind::Node)),
    ("hostnamectl hostname", Output::Name(Kind::Node)),
    ("echo $HOSTNAME", Output::Name(Kind::Node)),
    ("printenv HOSTNAME", Output::Name(Kind::Node)),
    ("scontrol show hostnames", Output::Names(Kind::Node)),
    ("whoami", Output::Name(Kind::User)),
    ("logname", Output::Name(Kind::User)),
    ("id -un", Output::Name(Kind::User)),
    ("echo $USER", Output::Name(Kind::User)),
    (
        "gcloud config get-value project",
        Output::Name(Kind::Project),
    ),
];
/// Parts of commands that print a secret, wherever they stand: all of one entry.
const PARTS: [&[&str]; 4] = [
    &["kubectl", "get secret", " -o"],
    &["kubectl", "get secret", "base64"],
    &["/dev/urandom", "|"],
    &["kubectl", "get secret", "template"],
];
/// Beginnings of lines with a typed command, also those that `set -x` writes.
const PROMPTS: [&str; 7] = ["$ ", "# ", "% ", "+ ", "++ ", "> $ ", "\u{276f} "];
/// Longest prompt that shows a user, a host or a folder.
const PROMPT_BYTES_MAX: usize = 128;
/// Words before a command.
const BEFORE: [&str; 4] = ["sudo ", "time ", "srun ", "exec "];
/// Most lines with secrets, and with names, behind a command.
const SECRETS_MAX: usize = 8;
const NAMES_MAX: usize = 64;
/// Longest line that is looked at, and longest name.
const LINE_BYTES_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 64;

/// The typed command of a line.
pub(super) fn command(line: &str) -> Option<&str> {
    let at = PROMPTS
        .iter()
        .find_map(|prompt| Some(line.len() - line.strip_prefix(prompt)?.len()));
    let at = at.or_else(|| {
        let near = &line.as_bytes()[..line.len().min(PROMPT_BYTES_MAX)];
        let sign = memchr::memchr3(b'$', b'#', b'%', near)?;
        let before = &line[..sign];
        let is_shown = before.contains(['@', '~']) || before.ends_with([']', ':']);
        (is_shown && line[sign + 1..].starts_with(' ')).then_some(sign + 2)
    })?;
    let command = line[at..].trim();
    let behind = BEFORE
        .iter()
        .find_map(|before| command.strip_prefix(before));
    Some(behind.unwrap_or(command))
}

/// What the command of a line prints, if it is listed.
fn output(command: &str) -> Option<Output> {
    let is = |(begin, output): &&(&str, Output)| {
        let behind = command.strip_prefix(begin);
        let ends = |behind: &str| {
            let next = behind.trim_start();
            // A comment may begin with the name of a command: `# hostname of the node`.
            let is_alone = next.is_empty() || next.starts_with(['-', '|', ';', '&', '#']);
            let is_joined = behind.starts_with(|next: char| next.is_alphanumeric() || next == '-');
            !is_joined && (is_alone || !matches!(output, Output::Name(_)))
        };
        behind.is_some_and(ends)
    };
    let listed = COMMANDS.iter().find(is);
    let has = |parts: &&&[&str]| parts.iter().all(|part| command.contains(part));
    match listed {
        Some((_, output)) => Some(*output),
        None => PARTS.iter().find(has).map(|_| Output::Secret),
    }
}

/// Calls `found` with what each line is that a listed command printed, and with its place.
fn each(text: &str, mut found: impl FnMut(Output, Range<usize>)) {
    let mut open: Option<(Output, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let begin = at;
        at += line.len();
        if line.len() > LINE_BYTES_MAX {
            open = None;
            continue;
        }
        if let Some(command) = command(line) {
            open = output(command).map(|output| (output, 0));
            continue;
        }
        let Some((output, count)) = &mut open else {
            continue;
        };
        let inner = line.trim();
        if inner.is_empty() {
            // A blank line may stand between the command and what it prints.
            open = open.filter(|(_, count)| *count == 0);
            continue;
        }
        let from = begin + line.len() - line.trim_start().len();
        found(*output, from..from + inner.len());
        *count += 1;
        let most = match output {
            Output::Secret => SECRETS_MAX,
            Output::Name(_) => 1,
            Output::Names(_) => NAMES_MAX,
        };
        open = open.filter(|(_, count)| *count < most);
    }
}

/// The words that may be secrets in what commands printed.
pub(super) fn secrets(text: &str, places: &mut Vec<Range<usize>>) {
    each(text, |output, line| {
        let written = &text[line.clone()];
        match output {
            Output::Secret if written.contains(char::is_whitespace) => {
                telling::words(text, line, places)
            }
            Output::Secret if !is_absent(written) => places.push(line),
            _ => {}
        }
    });
}

/// The names that commands printed.
pub(super) fn names<'a>(text: &'a str, found: &mut impl FnMut(Kind, &'a str)) {
    each(text, |output, line| {
        let (Output::Name(kind) | Output::Names(kind)) = output else {
            return;
        };
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        let written = &text[line];
        let is_list = matches!(output, Output::Names(_));
        let words = written.split_ascii_whitespace().take(NAMES_MAX);
        let is_name = |word: &&str| word.len() <= NAME_BYTES_MAX && word.chars().all(is_of_name);
        if words.clone().count() == 1 || is_list {
            words.filter(is_name).for_each(|word| found(kind, word));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_stand_behind_prompts() {
        for line in [
            "$ hostname -f",
            "root@h1:~# hostname",
            "[ada@h1 x]$ sudo hostname",
            "(env) ada@h1:/x$ hostname",
            "+ hostname",
        ] {
            assert_eq!(
                command(line).and_then(output),
                Some(Output::Name(Kind::Node)),
                "{line}"
            );
        }
        for line in [
            "hostname",
            "$ hostnamectl",
            "loss 3 % hostname",
            "# hostname of the node",
        ] {
            assert_eq!(command(line).and_then(output), None, "{line}");
        }
    }

    #[test]
    fn only_what_stands_before_the_next_prompt_was_printed() {
        let text = "$ pwgen 8 2\nkestral tobanuki\n$ ls\nbavotuki\n$ op read x\n\ndunapeli\n\nrest";
        let mut places = Vec::new();
        secrets(text, &mut places);
        let found: Vec<&str> = places.into_iter().map(|place| &text[place]).collect();
        assert_eq!(found, ["kestral", "tobanuki", "dunapeli"]);
    }
}
