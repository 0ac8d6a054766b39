//! `ncclNet_v4_t`, recorded: one buffer per receive, no tags.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tcpx_abi::with_shape!(v4 tap_version 8);
