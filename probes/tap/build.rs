//! Compiles the C half of the logger, because stable Rust cannot define C-variadic functions.

fn main() {
    println!("cargo:rerun-if-changed=src/logger.c");
    cc::Build::new()
        .file("src/logger.c")
        .warnings(true)
        .extra_warnings(true)
        .flag("-fvisibility=hidden")
        .compile("tcpx_tap_logger");
}
