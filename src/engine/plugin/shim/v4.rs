//! `ncclNet_v4_t`: one buffer per receive, no tags, handles of 64 bytes, and `connect` and
//! `accept` may block.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tcpx_abi::with_shape!(v4 version_calls 4);
