//! `ncclNet_v9_t`, recorded: every size is a `size_t`.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tcpx_abi::with_shape!(v9 tap_version 20);
