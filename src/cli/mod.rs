//! The command line: arguments to a request, one library call, an exit code.
//!
//! Results go to stdout, progress and errors to stderr. Each subcommand's file
//! is its manual.
#![forbid(unsafe_code)]

mod baseline;
#[cfg(test)]
mod book;
mod bundle;
mod child;
mod collect;
mod compare;
mod diagnose;
mod discover;
mod doctor;
mod doctor_table;
mod examples;
mod failure;
mod findings;
mod generate;
mod gpu;
mod handshake;
mod history;
mod logs;
mod logs_text;
mod mr;
mod nodes;
mod output;
mod pair;
mod rehearse;
mod report;
mod run;
mod run_table;
mod scenario;
mod selftest;
mod serve;
mod shrink;
mod signals;
mod tap;
mod trace;
mod watch;
mod watch_peer;
mod which;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use failure::{Ended, Ending, Failure};
use std::process::ExitCode;
use tcpx_coord::{agent, worker};

/// Proves, measures and explains transfers over GPUDirect-TCPX and other ncclNet plugins.
#[derive(Parser)]
#[command(
    name = "tcpxctl",
    version,
    max_term_width = 100,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Args, Clone)]
pub(crate) struct Common {
    /// Print one JSON document on stdout instead of text.
    #[arg(long, global = true)]
    json: bool,
    /// When to use colour.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Subcommand)]
enum Command {
    /// Keep a result under a name, to be compared with.
    Baseline(baseline::Arguments),
    /// Pack a run and its report into one file that can be sent.
    Bundle(bundle::Arguments),
    /// Print what a shell needs to complete commands and flags.
    Completions(generate::CompletionArguments),
    /// Say whether one result is better or worse than another, or whether that is noise.
    Compare(compare::Arguments),
    /// Show this node: its NICs, its GPUs, and every device of the plugin.
    Discover(discover::Arguments),
    /// Measure how received fragments are put into place on a GPU.
    Gpu(gpu::Arguments),
    /// Say why a transfer does not move: which condition, on which node and channel, and what decides it.
    Diagnose(diagnose::Arguments),
    /// Say what is wrong with this node before anything runs on it.
    Doctor(Box<doctor::Arguments>),
    /// Connect and close, and say what each step took.
    Handshake(handshake::Arguments),
    /// List the runs under reports/, and where their rates stand over time.
    History(history::Arguments),
    /// Say what log files tell about runs over TCPX.
    Logs(logs::Arguments),
    /// Print the manual page, or write one for every command.
    Man(generate::ManArguments),
    /// Register memory of many sizes and alignments, and say what is refused.
    Mr(mr::Arguments),
    /// Tell what a run was: for people, for Google, for a CI.
    Report(Box<report::Arguments>),
    /// Make known failures happen, and see whether each is found.
    Rehearse(rehearse::Arguments),
    /// Move verified bytes between two workers, as a scenario says.
    Run(Box<run::Arguments>),
    /// Hold a plugin against what every plugin owes, row by row.
    Selftest(selftest::Arguments),
    /// Wait for a coordinator that joins without ssh.
    Serve(serve::Arguments),
    /// Find the smallest scenario that still shows a finding.
    Shrink(shrink::Arguments),
    /// Run a program of your own with every plugin call recorded.
    Tap(tap::Arguments),
    /// Write a recording as a timeline: for the Perfetto UI, as CSV or as JSON lines.
    Trace(trace::Arguments),
    /// See it live, or as it was: which channel moves, which does not, and which side it is.
    Watch(watch::Arguments),
    /// One per node, started by the coordinator.
    #[command(hide = true)]
    Agent,
    /// One per plugin, started by the agent.
    #[command(hide = true)]
    Worker,
}

/// The whole command line, with the examples of every command.
pub fn command() -> clap::Command {
    examples::with_examples(Cli::command())
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let parsed = command()
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let code = match parsed {
        Ok(cli) => {
            let common = cli.common.clone();
            let ended = dispatch(cli);
            ended.map_or_else(|failure| failure.print(&common), |ending| ending.0)
        }
        Err(answer) if !answer.use_stderr() => {
            if let Err(error) = answer.print() {
                output::cut_short(&error);
            }
            ExitCode::SUCCESS
        }
        Err(mistake) => Failure::from(mistake).print(&unparsed_common()),
    };
    output::ending(code)
}

/// The flags that decide how a usage error is printed, when clap could not parse the line.
fn unparsed_common() -> Common {
    let own = std::env::args_os().take_while(|word| word != "--");
    Common {
        json: own.into_iter().any(|word| word == "--json"),
        color: Color::Auto,
    }
}

fn dispatch(cli: Cli) -> Ended {
    let common = &cli.common;
    match cli.command {
        Command::Baseline(arguments) => baseline::main(common, &arguments),
        Command::Completions(arguments) => generate::completions(&arguments, command()),
        Command::Man(arguments) => generate::man(common, &arguments, command()),
        Command::Compare(arguments) => compare::main(common, &arguments),
        Command::Bundle(arguments) => bundle::main(common, &arguments),
        Command::Discover(arguments) => discover::main(common, &arguments),
        Command::Gpu(arguments) => gpu::main(common, &arguments),
        Command::Diagnose(arguments) => diagnose::main(common, &arguments),
        Command::Doctor(arguments) => doctor::main(common, &arguments),
        Command::Handshake(arguments) => handshake::main(common, &arguments),
        Command::History(arguments) => history::main(common, &arguments),
        Command::Logs(arguments) => logs::main(common, &arguments),
        Command::Mr(arguments) => mr::main(common, &arguments),
        Command::Report(arguments) => report::main(common, &arguments),
        Command::Rehearse(arguments) => rehearse::main(common, &arguments),
        Command::Run(arguments) => run::main(common, &arguments),
        Command::Selftest(arguments) => selftest::main(common, &arguments),
        Command::Serve(arguments) => serve::main(common, &arguments),
        Command::Shrink(arguments) => shrink::main(common, &arguments),
        Command::Tap(arguments) => tap::main(common, &arguments),
        Command::Trace(arguments) => trace::main(common, &arguments),
        Command::Watch(arguments) => watch::main(common, &arguments),
        Command::Agent => Ok(Ending(agent::main())),
        Command::Worker => Ok(Ending(worker::main())),
    }
}
