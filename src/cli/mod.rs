//! The command line: parse arguments, call one library function, print the result.
//!
//! Results go to stdout, progress and errors to stderr. Each subcommand's file
//! is its manual.
#![forbid(unsafe_code)]

mod adopt;
mod agent;
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
mod doctor_fleet;
mod doctor_table;
mod dry_run;
mod examples;
mod export;
mod failure;
mod findings;
mod generate;
mod gpu;
mod groups;
mod handshake;
mod history;
mod launcher;
mod logs;
mod logs_harness;
mod logs_text;
mod mesh;
mod mr;
mod nixlbench;
mod nixlbench_table;
mod nodes;
mod on_stall;
mod output;
mod pair;
mod plugin_arguments;
mod rehearse;
mod report;
mod run;
mod run_table;
mod scenario;
#[cfg(test)]
mod schemas;
mod selftest;
mod serve;
mod shrink;
mod signals;
mod stacks;
mod tap;
mod topic;
mod trace;
mod tune;
mod unrecorded;
mod usage;
mod watch;
mod watch_peer;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use failure::{Ended, Ending, Failure};
use std::process::ExitCode;
use tcpx_coord::worker;

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

/// The flags of every subcommand.
#[derive(Args, Clone)]
pub(crate) struct Common {
    /// Print one JSON document on stdout instead of text.
    #[arg(long, global = true)]
    json: bool,
    /// When to print in colour.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Color {
    /// In colour on a terminal, unless NO_COLOR is set.
    Auto,
    /// In colour.
    Always,
    /// Without colour.
    Never,
}

#[derive(Subcommand)]
enum Command {
    /// Show a node's NICs, its GPUs and its plugin's devices.
    Discover(discover::Arguments),
    /// Check a node, or two together, for what GPUDirect-TCPX needs.
    Doctor(Box<doctor::Arguments>),
    /// Run the plugin conformance suite.
    Selftest(selftest::Arguments),
    /// Register memory of many sizes and alignments with a plugin.
    Mr(mr::Arguments),
    /// Measure the unpack policies of a GPU against a plain copy.
    Gpu(gpu::Arguments),
    /// Run a scenario: move verified bytes between two workers.
    Run(Box<run::Arguments>),
    /// Connect and close channels, and time every step.
    Handshake(handshake::Arguments),
    /// Inject every known failure, and check that it is diagnosed.
    Rehearse(rehearse::Arguments),
    /// Reduce a scenario to the smallest one that shows its finding.
    Shrink(shrink::Arguments),
    /// Find the smallest settings that are as fast as the best.
    Tune(tune::Arguments),
    /// Show every channel's window, live or replayed.
    Watch(watch::Arguments),
    /// Serve the counters of this node's recorders to Prometheus.
    Export(export::Arguments),
    /// Name the condition that stops a transfer, with its evidence.
    Diagnose(diagnose::Arguments),
    /// Summarize NCCL and TCPX logs.
    Logs(logs::Arguments),
    /// Run your own program with every plugin call recorded.
    Tap(tap::Arguments),
    /// Export a recording as a timeline: Perfetto, CSV or JSON lines.
    Trace(trace::Arguments),
    /// Print a page on a topic: sockets, polling, NUMA, own signatures.
    Topic(topic::Arguments),
    /// Build a run folder from recordings and logs of other programs.
    Adopt(adopt::Arguments),
    /// Render a run as a report.
    Report(Box<report::Arguments>),
    /// Pack a run and its report into one redacted file.
    Bundle(bundle::Arguments),
    /// Compare results, and tell regressions from noise.
    Compare(compare::Arguments),
    /// Save a result under a name, as a reference for `compare`.
    Baseline(baseline::Arguments),
    /// List the runs under reports/, and their rates over time.
    History(history::Arguments),
    /// Wait for a coordinator that joins without ssh.
    Serve(serve::Arguments),
    /// Print the completion script of a shell.
    Completions(generate::CompletionArguments),
    /// Print the manual page, or install one for every subcommand.
    Man(generate::ManArguments),
    /// Run the agent of a node; the coordinator starts it.
    #[command(hide = true)]
    Agent(agent::Arguments),
    /// Run the worker that loads the plugin; the agent starts it.
    #[command(hide = true)]
    Worker,
}

/// The whole command line, with the examples of every subcommand, and their list in groups.
pub fn command() -> clap::Command {
    groups::with_groups(examples::with_examples(Cli::command()))
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    signals::survive_file_size_limit();
    let parsed = command()
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let code = match parsed {
        Ok(cli) => {
            let common = cli.common.clone();
            let ended = stacks::check().and_then(|()| dispatch(cli));
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
        Command::Discover(arguments) => discover::main(common, &arguments),
        Command::Doctor(arguments) => doctor::main(common, &arguments),
        Command::Selftest(arguments) => selftest::main(common, &arguments),
        Command::Mr(arguments) => mr::main(common, &arguments),
        Command::Gpu(arguments) => gpu::main(common, &arguments),
        Command::Run(arguments) => run::main(common, &arguments),
        Command::Handshake(arguments) => handshake::main(common, &arguments),
        Command::Rehearse(arguments) => rehearse::main(common, &arguments),
        Command::Shrink(arguments) => shrink::main(common, &arguments),
        Command::Tune(arguments) => tune::main(common, &arguments),
        Command::Watch(arguments) => watch::main(common, &arguments),
        Command::Export(arguments) => export::main(common, &arguments),
        Command::Diagnose(arguments) => diagnose::main(common, &arguments),
        Command::Logs(arguments) => logs::main(common, &arguments),
        Command::Tap(arguments) => tap::main(common, &arguments),
        Command::Trace(arguments) => trace::main(common, &arguments),
        Command::Topic(arguments) => topic::main(common, &arguments),
        Command::Adopt(arguments) => adopt::main(common, &arguments),
        Command::Report(arguments) => report::main(common, &arguments),
        Command::Bundle(arguments) => bundle::main(common, &arguments),
        Command::Compare(arguments) => compare::main(common, &arguments),
        Command::Baseline(arguments) => baseline::main(common, &arguments),
        Command::History(arguments) => history::main(common, &arguments),
        Command::Serve(arguments) => serve::main(common, &arguments),
        Command::Completions(arguments) => generate::completions(&arguments, command()),
        Command::Man(arguments) => generate::man(common, &arguments, command()),
        Command::Agent(arguments) => agent::main(&arguments),
        Command::Worker => Ok(Ending(worker::main())),
    }
}
