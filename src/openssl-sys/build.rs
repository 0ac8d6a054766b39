//! Passes the folder of AWS-LC's headers on to libssh2's build.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The `links` name of aws-lc-sys contains its version: DEP_AWS_LC_0_47_0_INCLUDE.
    let include = std::env::vars()
        .find_map(|(name, value)| {
            (name.starts_with("DEP_AWS_LC_") && name.ends_with("_INCLUDE")).then_some(value)
        })
        .expect("aws-lc-sys sets DEP_AWS_LC_<version>_INCLUDE");
    println!("cargo::metadata=include={include}");
}
