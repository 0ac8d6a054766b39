//! `ncclNet_v8_t`, recorded: `regMr` takes its size as a `size_t`.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tcpx_abi::with_shape!(v8 tap_version 4);
