//! `tcpxctl completions SHELL` and `tcpxctl man`: what belongs to an installation.
//!
//! ```console
//! $ tcpxctl completions bash > ~/.local/share/bash-completion/completions/tcpxctl
//! $ tcpxctl man --out ~/.local/share/man/man1
//! $ tcpxctl man | man -l -
//! ```
#![forbid(unsafe_code)]

use super::Common;
use super::output::{fail, print, print_json};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tcpx_report::write_whole;

const NAME: &str = "tcpxctl";

#[derive(Args)]
pub(crate) struct CompletionArguments {
    /// For which shell.
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Args)]
pub(crate) struct ManArguments {
    /// A folder that gets a page for every command; the first page on stdout without it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn completions(arguments: &CompletionArguments, mut command: Command) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, NAME, &mut script);
    print(&String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}

pub(crate) fn man(common: &Common, arguments: &ManArguments, mut command: Command) -> ExitCode {
    let Some(folder) = &arguments.out else {
        let mut page = Vec::new();
        // Writing to memory cannot fail.
        let _ = Man::new(command).render(&mut page);
        print(&String::from_utf8_lossy(&page));
        return ExitCode::SUCCESS;
    };
    // Gives every command below its whole name.
    command.build();
    let mut pages = Vec::new();
    if let Err(code) = write(common, folder, &command, &mut pages) {
        return code;
    }
    match common.json {
        true => print_json(&serde_json::json!({ "schema": "tcpxctl.man/1", "pages": pages })),
        false => print(&format!(
            "# Pages : {} in {}\n",
            pages.len(),
            folder.display()
        )),
    }
    ExitCode::SUCCESS
}

/// A command's page, and those of the commands below it.
fn write(
    common: &Common,
    folder: &Path,
    command: &Command,
    pages: &mut Vec<PathBuf>,
) -> Result<(), ExitCode> {
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        write(common, folder, below, pages)?;
    }
    let path = folder.join(format!("{}.1", command.get_display_name().unwrap_or(NAME)));
    let page = |to: &mut dyn io::Write| {
        let mut text = Vec::new();
        Man::new(command.clone()).render(&mut text)?;
        to.write_all(&text)
    };
    write_whole(&path, page).map_err(|error| fail(common, &error, error.outcome()))?;
    pages.push(path);
    Ok(())
}
