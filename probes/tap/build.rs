//! Compiles the C half of the logger: a C-variadic function cannot be defined in
//! stable Rust.

fn main() {
    println!("cargo:rerun-if-changed=src/logger.c");
    cc::Build::new()
        .file("src/logger.c")
        .warnings(true)
        .extra_warnings(true)
        .flag("-fvisibility=hidden")
        .compile("tcpx_tap_logger");
}
