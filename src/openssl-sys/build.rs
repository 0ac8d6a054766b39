//! Hands the headers of AWS-LC on to libssh2's build.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // aws-lc-sys links under a name with its version in it: DEP_AWS_LC_0_47_0_INCLUDE.
    let include = std::env::vars()
        .find_map(|(name, value)| {
            (name.starts_with("DEP_AWS_LC_") && name.ends_with("_INCLUDE")).then_some(value)
        })
        .expect("aws-lc-sys names the folder of its headers");
    println!("cargo::metadata=include={include}");
}
