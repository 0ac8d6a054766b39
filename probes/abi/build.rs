//! Compiles the C half of the logger callback when the `logger` feature is on.

fn main() {
    println!("cargo:rerun-if-changed=src/logger.c");
    #[cfg(feature = "logger")]
    cc::Build::new()
        .file("src/logger.c")
        .warnings(true)
        .extra_warnings(true)
        .flag("-fvisibility=hidden")
        .compile("tcpx_abi_logger");
}
