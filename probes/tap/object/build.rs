//! The symbol table on pages without code, which `tcpx_tap` writes while the
//! object is being loaded. It is where linkers put it on x86-64 anyway.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,separate-code");
}
