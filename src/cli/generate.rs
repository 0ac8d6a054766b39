//! `tcpxctl completions SHELL` and `tcpxctl man`: completion scripts and manual pages.
//!
//! ```console
//! $ tcpxctl completions bash > ~/.local/share/bash-completion/completions/tcpxctl
//! $ tcpxctl man --out ~/.local/share/man/man1
//! $ tcpxctl man | man -l -
//! ```
#![forbid(unsafe_code)]

use super::Common;
use super::failure::{Ended, Ending};
use super::output::{path_text, print, print_json};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tcpx_report::{WriteError, write_whole};

const NAME: &str = "tcpxctl";

#[derive(Args)]
pub(crate) struct CompletionArguments {
    /// Shell to complete for.
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Args)]
pub(crate) struct ManArguments {
    /// Folder for the page of every subcommand [default: the main page on stdout].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// The pages that were written.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ManDocument<'a> {
    schema: &'static str,
    /// Their files.
    pages: &'a [PathBuf],
}

pub(crate) fn completions(arguments: &CompletionArguments, mut command: Command) -> Ended {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, NAME, &mut script);
    print(&String::from_utf8_lossy(&script));
    Ok(Ending::PASSED)
}

pub(crate) fn man(common: &Common, arguments: &ManArguments, mut command: Command) -> Ended {
    let Some(folder) = &arguments.out else {
        let mut page = Vec::new();
        // Writing to memory cannot fail.
        let _ = Man::new(command).render(&mut page);
        print(&String::from_utf8_lossy(&page));
        return Ok(Ending::PASSED);
    };
    // Sets the display name of every subcommand.
    command.build();
    let mut pages = Vec::new();
    write(folder, &command, &mut pages)?;
    match common.json {
        true => print_json(&ManDocument {
            schema: "tcpxctl.man/1",
            pages: &pages,
        }),
        false => print(&format!(
            "# Pages : {} in {}\n",
            pages.len(),
            path_text(folder)
        )),
    }
    Ok(Ending::PASSED)
}

/// Writes a command's page and those of its subcommands.
fn write(folder: &Path, command: &Command, pages: &mut Vec<PathBuf>) -> Result<(), WriteError> {
    let visible = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set());
    for below in visible {
        write(folder, below, pages)?;
    }
    let path = folder.join(format!("{}.1", command.get_display_name().unwrap_or(NAME)));
    write_whole(&path, |to| {
        let mut text = Vec::new();
        Man::new(command.clone()).render(&mut text)?;
        to.write_all(&text)
    })?;
    pages.push(path);
    Ok(())
}
