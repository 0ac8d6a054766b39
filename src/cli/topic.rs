//! `tcpxctl topic`: prints a page on one topic.
//!
//! ```console
//! $ tcpxctl topic
//! #  topic           what it is about
//!    sockets         Connections, sockets and MAX_SOCKETS
//!    polling         How often to call test
//! $ tcpxctl topic polling
//! # How often to call test
//! ...
//! ```
//!
//! The pages are files of `docs/topics`, in Markdown, and part of the program.
#![forbid(unsafe_code)]

use super::Common;
use super::failure::{Ended, Ending, Failure};
use super::output::{Columns, print, print_json};
use clap::Args;
use serde::Serialize;
use tcpx_words::error::Outcome;

/// The pages, each by the name of its file in `docs/topics`.
macro_rules! pages {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../docs/topics/", $name, ".md")))),+]
    };
}

const PAGES: &[(&str, &str)] = pages![
    "sockets",
    "polling",
    "consumed",
    "numa",
    "tuning",
    "trace",
    "own-signatures",
];

#[derive(Args)]
pub(crate) struct Arguments {
    /// The topic; without one, all topics are listed.
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct TopicDocument {
    schema: &'static str,
    topics: Vec<Topic>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Topic {
    name: &'static str,
    title: &'static str,
    /// The page in Markdown, if its name was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<&'static str>,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    let name = arguments.name.as_deref();
    let meant = |page: &&(&str, &str)| name.is_none_or(|name| name == page.0);
    let pages: Vec<_> = PAGES.iter().filter(meant).collect();
    if let (Some(name), []) = (name, pages.as_slice()) {
        let message = format!("there is no topic `{name}`");
        return Err(Failure::new(Outcome::Usage, message).next("list them with `tcpxctl topic`"));
    }
    let topic = |(of, page): &&(&'static str, &'static str)| Topic {
        name: of,
        title: title(page),
        page: name.map(|_| *page),
    };
    let topics: Vec<Topic> = pages.iter().map(topic).collect();
    if common.json {
        print_json(&TopicDocument {
            schema: "tcpxctl.topic/1",
            topics,
        });
    } else if let [
        Topic {
            page: Some(page), ..
        },
    ] = topics.as_slice()
    {
        print(page);
    } else {
        let mut columns = Columns::new(&["topic", "what it is about"]);
        for topic in &topics {
            columns.row([topic.name.to_owned(), topic.title.to_owned()]);
        }
        print(&columns.render());
    }
    Ok(Ending::PASSED)
}

/// The heading of a page.
fn title(page: &str) -> &str {
    let first = page.lines().next().unwrap_or_default();
    first.trim_start_matches("# ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command;
    use std::path::Path;

    #[test]
    fn every_file_of_the_folder_is_a_topic_and_is_in_the_book() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).expect("a summary");
        let files = std::fs::read_dir(docs.join("topics")).expect("a folder");
        let mut names: Vec<String> = files
            .map(|file| file.expect("a file").path())
            .map(|path| {
                path.file_stem()
                    .expect("a name")
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort_unstable();
        let mut topics: Vec<&str> = PAGES.iter().map(|(name, _)| *name).collect();
        topics.sort_unstable();
        assert_eq!(names, topics);
        for (name, page) in PAGES {
            let entry = format!("[{}](topics/{name}.md)", title(page));
            assert!(summary.contains(&entry), "SUMMARY.md lacks {entry}");
        }
    }

    #[test]
    fn a_page_about_the_plugin_says_what_the_source_says_what_measures_it_and_what_is_open() {
        for (name, page) in PAGES.iter().filter(|(name, _)| *name != "own-signatures") {
            let parts = ["source says", "measures it here", "stays open"];
            let heads: Vec<&str> = page
                .lines()
                .filter(|line| line.starts_with("## "))
                .collect();
            let has_part = |(head, part): (&&str, &str)| head.ends_with(part);
            assert!(
                heads.len() == 3 && heads.iter().zip(parts).all(has_part),
                "{name}: {heads:?}"
            );
            let source = page.split("## ").nth(1).expect("a part");
            let cited = source.split(['(', ' ', ',']).any(|word| {
                let place = word.split_once(".cc:").or_else(|| word.split_once(".h:"));
                place
                    .is_some_and(|(_, line)| line.starts_with(|first: char| first.is_ascii_digit()))
            });
            assert!(cited, "{name} cites no line of the source");
        }
    }

    #[test]
    fn every_command_of_a_page_is_accepted() {
        for (name, page) in PAGES {
            for line in page.lines().filter_map(|line| line.strip_prefix("$ ")) {
                let plain = line.replace('\'', "");
                let parsed = command().try_get_matches_from(plain.split(' '));
                assert!(parsed.is_ok(), "{name}: {line}: {:?}", parsed.err());
            }
        }
    }
}
