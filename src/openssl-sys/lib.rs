//! AWS-LC instead of OpenSSL, for libssh2.
//!
//! `libssh2-sys` uses the headers and the library of a crate named `openssl-sys`, and calls only
//! its `init`. `[patch.crates-io]` in the workspace manifest replaces that crate with this one.
//! libssh2 supports AWS-LC and needs only its libcrypto, which compiles in a quarter of OpenSSL's
//! time and without perl and make.
//!
//! Not here: declarations of OpenSSL's functions. Any other crate that needs OpenSSL fails to
//! compile.
#![forbid(unsafe_code)]

// Linked because libssh2, a C library, refers to its symbols.
extern crate aws_lc_sys as _;

/// Does nothing: AWS-LC initializes itself at the first call.
pub fn init() {}
