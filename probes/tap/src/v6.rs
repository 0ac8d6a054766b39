//! `ncclNet_v6_t`, recorded: with `regMrDmaBuf`.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tcpx_abi::with_shape!(v6 tap_version 16);
