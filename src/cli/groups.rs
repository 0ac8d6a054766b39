//! `tcpxctl --help` with the subcommands grouped by job, which clap has no means for.
#![forbid(unsafe_code)]

use clap::Command;
use clap::builder::Styles;
use std::fmt::Write;

/// Each group with its subcommands, in the order of `--help`.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Look at a node",
        &["discover", "doctor", "selftest", "mr", "gpu"],
    ),
    (
        "Move bytes",
        &["run", "handshake", "rehearse", "shrink", "tune"],
    ),
    (
        "Watch and explain",
        &[
            "watch", "export", "diagnose", "logs", "tap", "adopt", "trace", "topic",
        ],
    ),
    (
        "Tell others",
        &["report", "bundle", "compare", "baseline", "history"],
    ),
    ("Plumbing", &["serve", "completions", "man"]),
];

/// Replaces clap's one list of subcommands by the groups.
pub(super) fn with_groups(command: Command) -> Command {
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{}\n{{options}}{{after-help}}",
        list(&command),
        heading("Options"),
    );
    command.help_template(template)
}

fn list(command: &Command) -> String {
    let names = command
        .get_subcommands()
        .map(|below| below.get_name().len());
    let width = names.max().unwrap_or(0);
    let literal = Styles::styled().get_literal().to_owned();
    let mut text = String::new();
    for (title, members) in GROUPS {
        let _ = writeln!(text, "{}", heading(title));
        for name in members {
            let below = command.find_subcommand(name);
            let about = below
                .and_then(Command::get_about)
                .cloned()
                .unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:<width$}{literal:#}  {about}");
        }
        text.push('\n');
    }
    text
}

fn heading(title: &str) -> String {
    let header = Styles::styled().get_header().to_owned();
    format!("{header}{title}:{header:#}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command;

    /// So that a line of `--help` is not wrapped at 80 columns.
    const ABOUT_CHARS_MAX: usize = 65;

    #[test]
    fn every_subcommand_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, members)| members.iter().copied())
            .collect();
        grouped.sort_unstable();
        let command = command();
        let visible = command
            .get_subcommands()
            .filter(|below| !below.is_hide_set());
        let mut all: Vec<&str> = visible.map(Command::get_name).collect();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }

    #[test]
    fn the_first_line_of_a_subcommand_fits_beside_its_name() {
        for below in command().get_subcommands() {
            let about = below
                .get_about()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(
                (10..=ABOUT_CHARS_MAX).contains(&about.chars().count()),
                "{}: {about}",
                below.get_name()
            );
        }
    }

    #[test]
    fn help_has_the_groups_and_the_options() {
        let help = command().render_help().to_string();
        for (title, members) in GROUPS {
            assert!(
                help.contains(&format!("\n{title}:\n  {}", members[0])),
                "{help}"
            );
        }
        assert!(help.contains("\nOptions:\n"), "{help}");
        assert!(help.contains("--json"), "{help}");
    }
}
