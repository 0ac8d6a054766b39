//! Makes the linker put the symbol table on pages without code, because `tcpx_tap` writes to it
//! while the object is being loaded. On x86-64 linkers usually do so anyway.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,separate-code");
}
