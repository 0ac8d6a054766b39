//! `ncclNet_v10_t`, recorded: with a profiler and handles for it.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tcpx_abi::with_shape!(v10 tap_version 24);
