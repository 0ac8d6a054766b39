//! `ncclNet_v7_t`, recorded: `regMr` takes its size as a C int.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tcpx_abi::with_shape!(v7 tap_version 0);
