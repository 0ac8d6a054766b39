//! `ncclNet_v12_t`, recorded: as v11, with wider virtual devices.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tcpx_abi::with_shape!(v12 tap_version 32);
