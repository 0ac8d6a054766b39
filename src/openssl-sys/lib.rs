//! AWS-LC in the place of OpenSSL, for libssh2.
//!
//! `libssh2-sys` takes the headers and the library of a crate called
//! `openssl-sys`, and calls nothing of it but `init`. `[patch.crates-io]` in the
//! workspace's manifest puts this crate there. libssh2 knows AWS-LC and needs
//! only its libcrypto, which compiles in a quarter of OpenSSL's time and without
//! perl and make.
//!
//! Not here: declarations. A second crate that needs OpenSSL does not compile.
#![forbid(unsafe_code)]

// Linked for libssh2, which is C and names its symbols.
extern crate aws_lc_sys as _;

/// AWS-LC initializes itself at its first call.
pub fn init() {}
