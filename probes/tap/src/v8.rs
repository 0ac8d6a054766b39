//! `ncclNet_v8_t`, recorded: `regMr` takes its size as a `size_t`.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tap_version!(tcpx_abi::v8, usize, 4);
