//! tcpxctl: parse, call, print the outcome, choose the exit code.

fn main() -> std::process::ExitCode {
    tcpxctl::cli::main()
}
